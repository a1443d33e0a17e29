//! The launcher: receives a plan, clones, writes the id maps, and supervises until the end.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::pipe::PipeFlags;
use rustix::process::Pid;
use stockade_sys::{Cloned, Namespaces, clone_process};

use crate::descendants;
use crate::inside::{self, Inherited};
use crate::message;
use crate::owners::Owners;
use crate::plan::{Birth, Family, IdMap, Mapper, NEWGIDMAP, NEWUIDMAP, OutsideStep, Plan, Step};
use crate::report::{Phase, Refusal, Report};
use crate::supervise::{self, Sandbox, supervise};

/// Which process returns from [`launch`], and what it does next.
#[derive(Debug)]
pub enum Launched {
    /// This process has nothing more to do and exits with this code.
    Done(u8),
    /// This process is the first inside a finished wall, and becomes the guest.
    Inside(Provisions),
    /// Like `Inside`, without a pid namespace: the guest must kill the other processes itself.
    Confined {
        /// Ends when the launcher does.
        lifeline: OwnedFd,
        /// See [`Provisions::leaves`].
        leaves: Option<OwnedFd>,
    },
}

/// What the wall provides to the guest.
#[derive(Debug, Default)]
pub struct Provisions {
    /// The listeners for connections to the network, if the wall has one.
    pub listeners: Option<Listeners>,
    /// The tool socket, if there are tools.
    pub tools: Option<UnixListener>,
    /// The socket for reports of denied commands, if programs may send any.
    pub denials: Option<UnixListener>,
    /// The descriptor limit of each program, if it is lower than the guest's.
    pub program_files: Option<u64>,
    /// The guest's own `oom_score_adj`. No process inside can open such a file for writing.
    pub oom_score: Option<File>,
    /// The socket on which the host sends the files of cgroup leaves, if executions have leaves.
    pub leaves: Option<OwnedFd>,
    /// The upper layers of writable overlays, by the paths of the overlays.
    pub uppers: Vec<(PathBuf, OwnedFd)>,
}

/// The listeners for connections of programs to the network.
#[derive(Debug)]
pub struct Listeners {
    /// TCP connections.
    pub connections: TcpListener,
    /// UDP datagrams.
    pub datagrams: UdpSocket,
}

/// Receives a plan on the control socket and carries it out.
///
/// The process must have one thread. Returns in the first process inside when the wall is finished,
/// and in the launcher when everything inside has ended and is cleaned up. A failed plan is
/// reported, and returns [`Launched::Done`] on either side.
pub fn launch(control: UnixStream) -> Launched {
    match carry_out(control) {
        Ok(launched) => launched,
        Err((mut control, refusal)) => {
            say(&mut control, refusal);
            Launched::Done(1)
        }
    }
}

/// Refuses the plan before receiving it, because the launcher could not prepare itself.
pub fn refuse(mut control: UnixStream, step: &str, error: &io::Error) {
    say(&mut control, refusal(Phase::Outside, 0, step, String::new(), error));
}

/// Sends the refusal. The launcher then reads the rest of the plan until the host closes: closing a
/// socket with unread bytes would reset it and lose the refusal, unix(7).
fn say(control: &mut UnixStream, refusal: Refusal) {
    let phase = refusal.phase;
    // Fails only if the host is gone.
    let _ = message::send(control, &Report::Refused(refusal), &[]);
    if phase != Phase::Inside {
        let _ = control.shutdown(Shutdown::Write);
        let _ = io::copy(control, &mut io::sink());
    }
}

type Failure = (UnixStream, Refusal);

fn carry_out(mut control: UnixStream) -> Result<Launched, Failure> {
    let (plan, mut descriptors) = match message::receive::<Plan>(&mut control) {
        Ok(Some(received)) => received,
        // The host is gone and receives no report.
        Ok(None) => return Ok(Launched::Done(1)),
        Err(error) => {
            return Err((control, refusal(Phase::Outside, 0, "plan", String::new(), &error)));
        }
    };
    if let Err(error) = stand_apart() {
        return Err((control, refusal(Phase::Outside, 0, "stand_apart", String::new(), &error)));
    }
    let is_entered = |step: &&Step| matches!(step, Step::EnterCgroup { .. } | Step::Leaves);
    let entered = plan.inside.iter().filter(is_entered).count().min(descriptors.len());
    let mut kept = descriptors.split_off(entered);
    let timer = plan.has_timer.then(|| kept.pop()).flatten();
    let trees = match take_trees(&plan.outside) {
        Ok(trees) => trees,
        Err(refusal) => return Err((control, refusal)),
    };
    match bear(&plan.birth) {
        Ok(Side::Launcher { child, handle, mut lifeline }) => {
            drop((trees, descriptors));
            // Standard output is the guest's stream, which must close when the guest ends. Both
            // descriptors are open, so this cannot fail.
            let _ = rustix::stdio::dup2_stdout(rustix::stdio::stdin());
            // First: the child has most work. Its report on the same socket may precede this one's.
            if lifeline.write_all(b"m").is_err() {
                // The child would wait forever. If it is gone already the signal does nothing, and
                // the supervisor sees its end either way.
                let _ = rustix::process::pidfd_send_signal(&handle, rustix::process::Signal::KILL);
            }
            let born = Report::Born { process: child.as_raw_nonzero().get() };
            // If the host is gone, the supervisor detects that and ends the child.
            let _ = message::send(&mut control, &born, &[handle.as_fd()]);
            let code = supervise(Sandbox {
                control,
                handle,
                timer,
                family: plan.birth.family,
                after: plan.after,
            });
            // Open until here: the child and other processes use them to see whether the sandbox is
            // alive.
            drop((lifeline, kept));
            Ok(Launched::Done(code))
        }
        Ok(Side::Inside { lifeline }) => {
            drop((kept, timer));
            let inherited = Inherited { trees, cgroups: descriptors.into(), lifeline };
            inside::build(inherited, &plan.inside, control)
        }
        Ok(Side::Unmapped) => Ok(Launched::Done(1)),
        Err((step, error)) => Err((control, refusal(Phase::Birth, 0, step, String::new(), &error))),
    }
}

/// Starts a session of its own, so that signals of the host's terminal do not reach the launcher:
/// it must live until everything inside has ended.
fn stand_apart() -> io::Result<()> {
    match rustix::process::setsid() {
        Ok(_) => Ok(()),
        // EPERM is expected if this process leads a session already.
        Err(error) => match rustix::process::getsid(None) {
            Ok(session) if session == rustix::process::getpid() => Ok(()),
            _ => Err(error.into()),
        },
    }
}

fn take_trees(steps: &[OutsideStep]) -> Result<BTreeMap<String, OwnedFd>, Refusal> {
    let mut trees = BTreeMap::new();
    let mut owners = Owners::default();
    for (index, step) in steps.iter().enumerate() {
        let OutsideStep::TakeOwnedTree { name, path, attributes, kind, users, groups } = step;
        let taken = owners
            .mapping(*users, *groups)
            .and_then(|mapping| inside::take_tree(path, *attributes, *kind, Some(mapping.as_fd())));
        match taken {
            Ok(tree) => trees.insert(name.clone(), tree),
            Err(error) => {
                let target = path.display().to_string();
                return Err(refusal(Phase::Outside, index, "take_owned_tree", target, &error));
            }
        };
    }
    Ok(trees)
}

/// In which process the clone returned.
enum Side {
    Launcher {
        child: Pid,
        handle: OwnedFd,
        /// A byte written here lets the child continue. The kernel closes it whenever this process
        /// ends.
        lifeline: File,
    },
    Inside {
        /// Ends when the launcher does.
        lifeline: OwnedFd,
    },
    /// In the child, but the launcher failed to map the ids; it reports that itself.
    Unmapped,
}

type BirthError = (&'static str, io::Error);

/// Clones and maps the ids. The child waits for a byte on the lifeline.
fn bear(birth: &Birth) -> Result<Side, BirthError> {
    let (ours, theirs) =
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|error| ("clone", error.into()))?;
    let cgroup = match &birth.cgroup {
        Some(path) => Some(File::open(path).map_err(|error| ("clone", error))?),
        None => None,
    };
    let directory = cgroup.as_ref().map(|directory| directory.as_fd());
    let (wanted, step) = match birth.family {
        Family::Namespaces { .. } => (namespaces(birth), "clone"),
        Family::Descendants(reach) => {
            descendants::prepare(reach)?;
            (Namespaces::NONE, "fork")
        }
    };
    let cloned = clone_process(wanted, directory);
    match cloned.map_err(|error| (step, error))? {
        Cloned::Child => {
            drop(theirs);
            let mut lifeline = File::from(ours);
            match lifeline.read_exact(&mut [0]) {
                Ok(()) => Ok(Side::Inside { lifeline: lifeline.into() }),
                Err(_) => Ok(Side::Unmapped),
            }
        }
        Cloned::Original { child, handle } => {
            drop(ours);
            let mapped = match birth.family {
                Family::Namespaces { users, groups, mapper: Mapper::Launcher } => {
                    write_maps(child, &[users], &[groups])
                }
                Family::Namespaces { users, groups, mapper: Mapper::Helpers } => {
                    map_by_helper(NEWGIDMAP, child, groups)
                        .and_then(|()| map_by_helper(NEWUIDMAP, child, users))
                }
                Family::Descendants(_) => Ok(()),
            };
            match mapped {
                Ok(()) => Ok(Side::Launcher { child, handle, lifeline: File::from(theirs) }),
                Err(error) => {
                    // Ended before the report, so that the host can then remove its cgroups.
                    supervise::end(&handle);
                    Err(("maps", error))
                }
            }
        }
    }
}

#[cfg(not(feature = "weaken"))]
fn namespaces(_: &Birth) -> Namespaces {
    Namespaces::WALL
}

#[cfg(feature = "weaken")]
fn namespaces(birth: &Birth) -> Namespaces {
    use crate::plan::SharedNamespace;
    birth.shared.iter().fold(Namespaces::WALL, |namespaces, shared| match shared {
        SharedNamespace::Network => namespaces.without_network(),
        SharedNamespace::Ipc => namespaces.without_ipc(),
    })
}

/// Writes the id maps of a new user namespace.
pub(crate) fn write_maps(child: Pid, users: &[IdMap], groups: &[IdMap]) -> io::Result<()> {
    write_maps_of(Path::new(&format!("/proc/{}", child.as_raw_nonzero())), users, groups)
}

fn write_maps_of(process: &Path, users: &[IdMap], groups: &[IdMap]) -> io::Result<()> {
    // An unprivileged caller may map its group only after denying setgroups(2) inside.
    if !rustix::process::geteuid().is_root() {
        write_to_proc(&process.join("setgroups"), "deny")?;
    }
    write_to_proc(&process.join("gid_map"), &lines(groups))?;
    write_to_proc(&process.join("uid_map"), &lines(users))
}

/// Writes an id map with a privileged helper, newuidmap(1).
fn map_by_helper(program: &str, child: Pid, map: IdMap) -> io::Result<()> {
    let numbers = [map.inside, map.outside, map.count].map(|number| number.to_string());
    // It must not inherit this process's standard streams: one is the guest's stream.
    let output = Command::new(program)
        .arg(child.as_raw_nonzero().to_string())
        .args(numbers)
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(io::Error::other(format!("{program}: {}", said.trim())))
        }
    }
}

fn lines(maps: &[IdMap]) -> String {
    let line = |map: &IdMap| format!("{} {} {}\n", map.inside, map.outside, map.count);
    maps.iter().map(line).collect()
}

/// Writes a kernel file in one write(2), as such files require.
pub(crate) fn write_once(file: &Path, text: &str) -> io::Result<()> {
    write_open(OpenOptions::new().write(true).open(file)?, text)
}

/// Writes a file in procfs. A file of the same name on another file system would accept the text,
/// and the ids would not be mapped.
fn write_to_proc(file: &Path, text: &str) -> io::Result<()> {
    let open = OpenOptions::new().write(true).open(file)?;
    check_procfs(&open, file)?;
    write_open(open, text)
}

/// Refuses a file that is not in procfs.
pub(crate) fn check_procfs(open: &File, path: &Path) -> io::Result<()> {
    match rustix::fs::fstatfs(open)?.f_type {
        rustix::fs::PROC_SUPER_MAGIC => Ok(()),
        _ => {
            let problem = format!("{} is not on procfs", path.display());
            Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
        }
    }
}

fn write_open(mut open: File, text: &str) -> io::Result<()> {
    match open.write(text.as_bytes())? {
        written if written == text.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

pub(crate) fn refusal(
    phase: Phase,
    index: usize,
    step: &str,
    target: String,
    error: &io::Error,
) -> Refusal {
    let (errno, reason) = (error.raw_os_error(), error.to_string());
    Refusal { phase, index, step: step.to_owned(), target, errno, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_maps_are_written_only_to_procfs() {
        let directory = std::env::temp_dir().join(format!("stockade-maps-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let names = ["setgroups", "gid_map", "uid_map"];
        for name in names {
            File::create(directory.join(name)).unwrap();
        }
        let map = IdMap { inside: 0, outside: 0, count: 1 };
        let refused = write_maps_of(&directory, &[map], &[map]).unwrap_err().to_string();
        let written = names.map(|name| std::fs::read_to_string(directory.join(name)).unwrap());
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(refused.ends_with("is not on procfs"), "{refused}");
        assert_eq!(written, ["", "", ""]);
    }
}
