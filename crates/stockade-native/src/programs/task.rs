//! Reads from `/proc` a thread that is blocked in execve(2).

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use stockade_seccomp::{Architecture, Syscall};
use stockade_sys::Notification;

use super::walk::{Opened, Root};

/// The kernel's `PATH_MAX`, with the NUL byte.
const LONGEST_PATH: usize = 4096;

/// `AT_FDCWD`: the working directory instead of a descriptor.
const WORKING_DIRECTORY: i32 = -100;

/// The program that a thread tries to start.
pub(super) enum Tried {
    /// An absolute path inside.
    Path(PathBuf),
    /// An open file, and the kernel's name for it.
    Open(Opened, PathBuf),
}

/// A thread, by its tid on the host.
pub(super) struct Task {
    directory: PathBuf,
}

impl Task {
    pub(super) fn of(thread: u32) -> Task {
        Task { directory: PathBuf::from(format!("/proc/{thread}")) }
    }

    /// Reads the arguments of the call.
    pub(super) fn tried(&self, question: &Notification) -> io::Result<Tried> {
        let [first, second, ..] = question.arguments;
        let call = u32::try_from(question.call).ok();
        if call.is_some() && call == number("execveat") {
            // The kernel uses the low 32 bits of the argument, as a signed number.
            return self.from(first as u32 as i32, self.path_at(second)?);
        }
        self.from(WORKING_DIRECTORY, self.path_at(first)?)
    }

    /// The root directory of the thread.
    pub(super) fn root(&self) -> io::Result<Root> {
        let top = open(self.directory.join("root"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let (process, thread) = self.numbers_inside()?;
        Ok(Root::new(top, process, thread))
    }

    /// The number of the cgroup leaf that the thread is in, if executions have leaves.
    pub(super) fn leaf(&self) -> Option<u64> {
        let groups = fs::read_to_string(self.directory.join("cgroup")).ok()?;
        groups.lines().find_map(|line| line.rsplit_once("/exec-")?.1.parse().ok())
    }

    /// Resolves a path against a descriptor; an empty path means the descriptor itself.
    fn from(&self, descriptor: i32, path: PathBuf) -> io::Result<Tried> {
        if path.is_absolute() {
            return Ok(Tried::Path(path));
        }
        let place = match descriptor {
            WORKING_DIRECTORY => self.directory.join("cwd"),
            number => self.directory.join(format!("fd/{number}")),
        };
        let name = fs::read_link(&place)?;
        if !path.as_os_str().is_empty() {
            return Ok(Tried::Path(name.join(path)));
        }
        let file = open(&place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Tried::Open(Opened::new(file, name.clone()), name))
    }

    /// The NUL-terminated string at an address in the thread's memory.
    fn path_at(&self, address: u64) -> io::Result<PathBuf> {
        let memory = File::open(self.directory.join("mem"))?;
        let mut bytes = vec![0; LONGEST_PATH];
        // Returns fewer bytes if the following page is not mapped.
        let read = memory.read_at(&mut bytes, address)?;
        match bytes[..read].iter().position(|byte| *byte == 0) {
            Some(end) => bytes.truncate(end),
            // The kernel itself refuses a longer path.
            None => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(PathBuf::from(OsString::from_vec(bytes)))
    }

    /// The ids of the process and the thread in their own pid namespace.
    fn numbers_inside(&self) -> io::Result<(String, String)> {
        let status = fs::read_to_string(Path::new(&self.directory).join("status"))?;
        let innermost = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().next_back().map(str::to_owned)
        };
        let numbers = innermost("NStgid:").zip(innermost("NSpid:"));
        numbers.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

fn number(call: &str) -> Option<u32> {
    Syscall::named(call)?.number(Architecture::native()?)
}
