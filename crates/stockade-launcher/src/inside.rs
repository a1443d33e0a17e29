//! The first process inside: carries out the steps in order.

mod covers;
mod egress;
mod files;
mod guard;
mod overlay;
mod privileges;
mod start;
mod tools;

pub use privileges::{become_user, seal};

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::message;
use crate::outside::{Launched, Provisions, refusal};
use crate::plan::{Step, ToolSocket};
use crate::report::{Phase, Refusal, Report};

pub(crate) use files::take_tree;

/// What the first process inherits from the launcher.
pub(crate) struct Inherited {
    /// Mount trees that the launcher opened outside.
    pub(crate) trees: BTreeMap<String, OwnedFd>,
    /// Files of the version 1 cgroups to enter, and the socket for leaves, in the order of the steps.
    pub(crate) cgroups: VecDeque<OwnedFd>,
    /// Ends when the launcher does.
    pub(crate) lifeline: OwnedFd,
}

/// What earlier steps leave for later ones.
struct BuildState {
    /// Mount trees that are open and not attached yet.
    trees: BTreeMap<String, OwnedFd>,
    /// The new root directory, before pivot_root(2).
    root: Option<OwnedFd>,
    apart: Option<overlay::Apart>,
    covers: Option<covers::Covers>,
    /// The root of the writable file system.
    scratch: Option<OwnedFd>,
    /// How many of its directories are in use; names the next one.
    scratch_count: usize,
    /// The seccomp listener that asks the host before a program starts.
    programs: Option<OwnedFd>,
    /// What the wall provides to the guest.
    provisions: Provisions,
    /// The descriptors that later steps use.
    cgroups: VecDeque<OwnedFd>,
    lifeline: OwnedFd,
}

/// Carries out the steps, up to the one that completes the wall.
pub(crate) fn build(
    inherited: Inherited,
    steps: &[Step],
    mut control: UnixStream,
) -> Result<Launched, (UnixStream, Refusal)> {
    let mut building = BuildState::new(inherited);
    for (index, step) in steps.iter().enumerate() {
        if let Step::Serve | Step::ServeConfined = step
            && let Err(error) = stockade_sys::close_on_exec_from(3)
        {
            return Err((
                control,
                refusal(Phase::Inside, index, step.name(), String::new(), &error),
            ));
        }
        if let Step::Serve | Step::ServeConfined | Step::Execute { .. } = step
            && building.report(&mut control).is_err()
        {
            // The host is gone: run nothing.
            return Ok(Launched::Done(1));
        }
        if let Step::Serve = step {
            // All other descriptors from outside are closed with `building` and `control`.
            return Ok(Launched::Inside(building.provisions));
        }
        if let Step::ServeConfined = step {
            let BuildState { lifeline, provisions, .. } = building;
            return Ok(Launched::Confined { lifeline, leaves: provisions.leaves });
        }
        if let Err(error) = building.carry_out(step) {
            let target =
                target_of(step).map_or_else(String::new, |path| path.display().to_string());
            return Err((control, refusal(Phase::Inside, index, step.name(), target, &error)));
        }
    }
    let missing = wrong("the plan starts nothing");
    Err((control, refusal(Phase::Inside, steps.len(), "execute", String::new(), &missing)))
}

impl BuildState {
    fn new(inherited: Inherited) -> BuildState {
        let Inherited { trees, cgroups, lifeline } = inherited;
        BuildState {
            trees,
            root: None,
            apart: None,
            covers: None,
            scratch: None,
            scratch_count: 0,
            programs: None,
            provisions: Provisions::default(),
            cgroups,
            lifeline,
        }
    }

    /// Reports that the wall is ready, and sends the host the descriptors that it watches.
    fn report(&mut self, control: &mut UnixStream) -> io::Result<()> {
        // Taken, so that no process inside keeps the listener and could answer for the host.
        let programs = self.programs.take();
        let ready = Report::Ready { scratch: self.scratch.is_some(), programs: programs.is_some() };
        let beside: Vec<_> = self.scratch.iter().chain(&programs).map(AsFd::as_fd).collect();
        message::send(control, &ready, &beside)
    }

    fn carry_out(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::EnterCgroup { .. } => {
                let tasks =
                    self.cgroups.pop_front().ok_or_else(|| wrong("no descriptor for it"))?;
                rustix::io::write(&tasks, b"0")?;
                Ok(())
            }
            Step::Leaves => {
                let socket = self.cgroups.pop_front();
                self.provisions.leaves = Some(socket.ok_or_else(|| wrong("no descriptor for it"))?);
                Ok(())
            }
            Step::OwnCgroups => stockade_sys::unshare_cgroups(),
            Step::PrivateMounts => {
                overlay::stand_among_descriptors()?;
                files::private_mounts()
            }
            Step::TakeTree { name, path, attributes, kind } => {
                let tree = files::take_tree(path, *attributes, *kind, None)?;
                self.trees.insert(name.clone(), tree);
                Ok(())
            }
            Step::BecomeUser { user, group } => privileges::become_user(*user, *group),
            Step::MakeRoot(memory) => {
                let root = files::make_root(*memory)?;
                let covers = covers::Covers::new(&root)?;
                self.apart = Some(overlay::Apart::new(covers.no_files()?));
                self.covers = Some(covers);
                self.root = Some(root);
                Ok(())
            }
            Step::OverlayRoot { name } => {
                let tree = self.take(name)?;
                self.root = Some(overlay::root(self.root()?, &tree)?);
                Ok(())
            }
            Step::MakeScratch(memory) => {
                self.scratch = Some(files::make_scratch(*memory)?);
                Ok(())
            }
            Step::Directory { path, mode } => files::directory(self.root()?, path, *mode),
            Step::Link { path, target } => files::link(self.root()?, path, target),
            Step::File { path, content } => files::file(self.root()?, path, content),
            Step::CopyFile { path } => files::copy(self.root()?, path),
            Step::AttachTree { name, path } => {
                let tree = self.take(name)?;
                files::attach(&tree, self.root()?, path)
            }
            Step::AttachApart { name, part, path, executable } => {
                let tree = self.take(name)?;
                let layered = overlay::Layered { tree: &tree, executable: *executable };
                let apart = self.apart.as_ref().ok_or_else(no_root)?;
                match part {
                    Some(part) => apart.attach_part(layered, part, self.root()?, path),
                    None => apart.attach(layered, self.root()?, path),
                }
            }
            Step::AttachOverlay { name, path, executable } => {
                let tree = self.take(name)?;
                let layers = self.scratch_directory(crate::plan::FileMode(0o700))?;
                let layered = overlay::Layered { tree: &tree, executable: *executable };
                let (scratch, root) = (self.scratch()?, self.root()?);
                let upper = overlay::attach_over_tree(scratch, &layers, layered, root, path)?;
                self.provisions.uppers.push((path.clone(), upper));
                Ok(())
            }
            Step::AttachScratch { path, mode } => {
                let name = self.scratch_directory(*mode)?;
                let tree = files::subtree(self.scratch()?, &name)?;
                files::attach(&tree, self.root()?, path)
            }
            Step::Proc { pids_only } => files::proc(self.root()?, *pids_only),
            Step::Terminals => files::terminals(self.root()?),
            Step::Mask { path } => {
                let covers = self.covers.as_ref().ok_or_else(no_root)?;
                covers.mask(self.root()?, path)
            }
            Step::Cover { path, content } => {
                let covers = self.covers.as_mut().ok_or_else(no_root)?;
                covers.cover(self.root.as_ref().ok_or_else(no_root)?, path, content)
            }
            Step::Pin { path } => covers::pin(self.root()?, path),
            Step::ReadOnly { path } => covers::read_only(self.root()?, path),
            Step::ForbidUserNamespaces => files::forbid_user_namespaces(self.root()?),
            Step::OpenPorts => files::open_ports(self.root()?),
            Step::Pivot => {
                let root = self.root.take().ok_or_else(no_root)?;
                (self.apart, self.covers) = (None, None);
                files::pivot(&root)
            }
            Step::SealRoot => {
                self.provisions.oom_score = Some(privileges::own_oom_score()?);
                files::seal_root()
            }
            Step::Loopback => stockade_sys::bring_up_loopback(),
            Step::Egress { listen, redirected } => {
                self.provisions.listeners = Some(egress::open(*listen, redirected)?);
                Ok(())
            }
            Step::ToolSocket(socket) => {
                let tools::ToolListeners { tools, denials } = tools::open(socket)?;
                (self.provisions.tools, self.provisions.denials) = (tools, denials);
                Ok(())
            }
            Step::ProgramFiles(most) => {
                self.provisions.program_files = Some(*most);
                Ok(())
            }
            Step::HostName(name) => Ok(rustix::system::sethostname(name.as_bytes())?),
            Step::Limit { resource, amount } => privileges::limit(*resource, *amount),
            Step::NewSession => {
                rustix::process::setsid()?;
                Ok(())
            }
            Step::WorkingDirectory(path) => Ok(rustix::process::chdir(path)?),
            Step::SealPrivileges => privileges::seal(),
            Step::Landlock { version, rules } => {
                let uppers = self.provisions.uppers.iter().map(|(_, upper)| upper.as_fd());
                guard::landlock(*version, rules, uppers)
            }
            Step::LandlockNetwork { version } => guard::landlock_network(*version),
            Step::AdoptOrphans => {
                let own = rustix::process::getpid();
                Ok(rustix::process::set_child_subreaper(Some(own))?)
            }
            Step::WatchPrograms { program } => {
                self.programs = Some(guard::watch(program)?);
                Ok(())
            }
            Step::Seccomp { programs } => guard::seccomp(programs),
            Step::DieWithParent => privileges::die_with_parent(&self.lifeline),
            Step::Serve | Step::ServeConfined => Ok(()),
            Step::Execute { program, arguments, environment } => {
                Err(start::execute(program, arguments, environment))
            }
        }
    }

    fn take(&mut self, name: &str) -> io::Result<OwnedFd> {
        self.trees.remove(name).ok_or_else(|| wrong("no such tree was taken"))
    }

    fn scratch(&self) -> io::Result<&OwnedFd> {
        self.scratch.as_ref().ok_or_else(|| wrong("there is no scratch space"))
    }

    /// Makes a new directory in the scratch file system and returns its name there.
    fn scratch_directory(&mut self, mode: crate::plan::FileMode) -> io::Result<PathBuf> {
        let name = PathBuf::from(self.scratch_count.to_string());
        files::directory(self.scratch()?, &name, mode)?;
        self.scratch_count += 1;
        Ok(name)
    }

    fn root(&self) -> io::Result<&OwnedFd> {
        self.root.as_ref().ok_or_else(no_root)
    }
}

/// The error for an inconsistent plan.
fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

fn no_root() -> io::Error {
    wrong("there is no new root")
}

/// The path of a step, for reports.
fn target_of(step: &Step) -> Option<&Path> {
    match step {
        Step::EnterCgroup { file: path }
        | Step::TakeTree { path, .. }
        | Step::Directory { path, .. }
        | Step::Link { path, .. }
        | Step::File { path, .. }
        | Step::CopyFile { path }
        | Step::AttachTree { path, .. }
        | Step::AttachApart { path, .. }
        | Step::AttachOverlay { path, .. }
        | Step::AttachScratch { path, .. }
        | Step::Mask { path }
        | Step::Cover { path, .. }
        | Step::Pin { path }
        | Step::ReadOnly { path }
        | Step::ToolSocket(ToolSocket { directory: path, .. })
        | Step::WorkingDirectory(path)
        | Step::Execute { program: path, .. } => Some(path),
        Step::Leaves
        | Step::OwnCgroups
        | Step::PrivateMounts
        | Step::BecomeUser { .. }
        | Step::MakeRoot(_)
        | Step::OverlayRoot { .. }
        | Step::MakeScratch(_)
        | Step::Proc { .. }
        | Step::Terminals
        | Step::ForbidUserNamespaces
        | Step::OpenPorts
        | Step::Pivot
        | Step::SealRoot
        | Step::Loopback
        | Step::Egress { .. }
        | Step::ProgramFiles(_)
        | Step::HostName(_)
        | Step::Limit { .. }
        | Step::NewSession
        | Step::SealPrivileges
        | Step::Landlock { .. }
        | Step::LandlockNetwork { .. }
        | Step::AdoptOrphans
        | Step::WatchPrograms { .. }
        | Step::Seccomp { .. }
        | Step::DieWithParent
        | Step::Serve
        | Step::ServeConfined => None,
    }
}
