//! The first process inside: carries out the steps, one after another.

mod files;
mod guard;
mod privileges;
mod start;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::outside::refuse;
use crate::plan::Step;
use crate::report::{Phase, Report};

/// What earlier steps leave for later ones.
#[derive(Default)]
struct Building {
    /// Trees that were taken and not attached yet.
    trees: BTreeMap<String, OwnedFd>,
    /// The top of the new root, before it is the root.
    root: Option<OwnedFd>,
    /// The top of the writable file system.
    scratch: Option<OwnedFd>,
    /// How many directories of it are in use, which names the next.
    scratch_count: usize,
}

/// Carries out the steps. Returns the code to end with, which only happens after a failure: the
/// last step of a plan replaces this process.
pub(crate) fn carry_out(steps: &[Step], stream: &mut impl Write) -> u8 {
    let mut building = Building::default();
    for (index, step) in steps.iter().enumerate() {
        if let Step::Execute { .. } = step
            && Report::Ready.write(stream).is_err()
        {
            // The host is gone, and with it the reason to run anything.
            return 1;
        }
        if let Err(error) = building.carry_out(step) {
            let target =
                target_of(step).map_or_else(String::new, |path| path.display().to_string());
            return refuse(stream, Phase::Inside, index, step.name(), &target, &error);
        }
    }
    let missing = io::Error::new(io::ErrorKind::InvalidInput, "the plan starts no program");
    refuse(stream, Phase::Inside, steps.len(), "execute", "", &missing)
}

impl Building {
    fn carry_out(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::PrivateMounts => files::private_mounts(),
            Step::TakeTree { name, path, attributes, kind } => {
                let tree = files::take_tree(path, *attributes, *kind)?;
                self.trees.insert(name.clone(), tree);
                Ok(())
            }
            Step::BecomeUser { user, group } => privileges::become_user(*user, *group),
            Step::MakeRoot(memory) => {
                self.root = Some(files::make_root(*memory)?);
                Ok(())
            }
            Step::MakeScratch(memory) => {
                self.scratch = Some(files::memory_file_system(*memory)?);
                Ok(())
            }
            Step::Directory { path, mode } => files::directory(self.root()?, path, *mode),
            Step::Link { path, target } => files::link(self.root()?, path, target),
            Step::File { path, content } => files::file(self.root()?, path, content),
            Step::AttachTree { name, path } => {
                let tree =
                    self.trees.remove(name).ok_or_else(|| wrong("no such tree was taken"))?;
                files::attach(&tree, self.root()?, path)
            }
            Step::AttachScratch { path, mode } => self.attach_scratch(path, *mode),
            Step::Proc { pids_only } => files::proc(self.root()?, *pids_only),
            Step::Terminals => files::terminals(self.root()?),
            Step::Mask { path } => files::mask(self.root()?, path),
            Step::ReadOnly { path } => files::read_only(self.root()?, path),
            Step::ForbidUserNamespaces => files::forbid_user_namespaces(self.root()?),
            Step::Pivot => {
                let root = self.root.take().ok_or_else(|| wrong("there is no new root"))?;
                files::pivot(&root)
            }
            Step::SealRoot => files::seal_root(),
            Step::Loopback => stockade_sys::raise_loopback(),
            Step::HostName(name) => Ok(rustix::system::sethostname(name.as_bytes())?),
            Step::Limit { resource, amount } => privileges::limit(*resource, *amount),
            Step::NewSession => {
                rustix::process::setsid()?;
                Ok(())
            }
            Step::WorkingDirectory(path) => Ok(rustix::process::chdir(path)?),
            Step::SealPrivileges => privileges::seal(),
            Step::Landlock { rules } => guard::landlock(rules),
            Step::Seccomp { programs } => guard::seccomp(programs),
            Step::DieWithParent => {
                Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)
            }
            Step::Execute { program, arguments, environment } => {
                Err(start::execute(program, arguments, environment))
            }
        }
    }

    fn root(&self) -> io::Result<&OwnedFd> {
        self.root.as_ref().ok_or_else(|| wrong("there is no new root"))
    }

    fn attach_scratch(&mut self, path: &Path, mode: crate::plan::FileMode) -> io::Result<()> {
        let scratch = self.scratch.as_ref().ok_or_else(|| wrong("there is no scratch space"))?;
        let name = PathBuf::from(self.scratch_count.to_string());
        files::directory(scratch, &name, mode)?;
        self.scratch_count += 1;
        let tree = files::subtree(scratch, &name)?;
        files::attach(&tree, self.root()?, path)
    }
}

/// A plan that contradicts itself.
fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// The path a step is about, for reports.
fn target_of(step: &Step) -> Option<&Path> {
    match step {
        Step::TakeTree { path, .. }
        | Step::Directory { path, .. }
        | Step::Link { path, .. }
        | Step::File { path, .. }
        | Step::AttachTree { path, .. }
        | Step::AttachScratch { path, .. }
        | Step::Mask { path }
        | Step::ReadOnly { path }
        | Step::WorkingDirectory(path)
        | Step::Execute { program: path, .. } => Some(path),
        Step::PrivateMounts
        | Step::BecomeUser { .. }
        | Step::MakeRoot(_)
        | Step::MakeScratch(_)
        | Step::Proc { .. }
        | Step::Terminals
        | Step::ForbidUserNamespaces
        | Step::Pivot
        | Step::SealRoot
        | Step::Loopback
        | Step::HostName(_)
        | Step::Limit { .. }
        | Step::NewSession
        | Step::SealPrivileges
        | Step::Landlock { .. }
        | Step::Seccomp { .. }
        | Step::DieWithParent => None,
    }
}
