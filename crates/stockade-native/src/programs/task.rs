//! One thread that waits to start a program, seen through `/proc`.

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

/// The kernel's own bound for a path, its end included.
const LONGEST_PATH: usize = 4096;

/// `AT_FDCWD`: the working directory instead of a descriptor.
const WORKING_DIRECTORY: i32 = -100;

/// What a thread wants to start.
pub(super) enum Tried {
    /// A path inside that starts at the root.
    Path(PathBuf),
    /// An open file, and how the kernel names it.
    Open(Opened, PathBuf),
}

/// A thread, as the host numbers it.
pub(super) struct Task {
    directory: PathBuf,
}

impl Task {
    pub(super) fn of(thread: u32) -> Task {
        Task { directory: PathBuf::from(format!("/proc/{thread}")) }
    }

    /// Reads what the call is about.
    pub(super) fn tried(&self, question: &Notification) -> io::Result<Tried> {
        let [first, second, ..] = question.arguments;
        let call = u32::try_from(question.call).ok();
        if call.is_some() && call == number("execveat") {
            // The kernel takes the low half of the argument, with its sign.
            return self.from(first as u32 as i32, self.path_at(second)?);
        }
        self.from(WORKING_DIRECTORY, self.path_at(first)?)
    }

    /// The root of what the thread sees.
    pub(super) fn root(&self) -> io::Result<Root> {
        let top = open(self.directory.join("root"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let (process, thread) = self.numbers_inside()?;
        Ok(Root::new(top, process, thread))
    }

    /// A path as the thread means it; an empty one is the descriptor itself.
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

    /// The text at an address of the thread's memory, up to its end.
    fn path_at(&self, address: u64) -> io::Result<PathBuf> {
        let memory = File::open(self.directory.join("mem"))?;
        let mut bytes = vec![0; LONGEST_PATH];
        // Fewer bytes come where the memory behind is not there.
        let read = memory.read_at(&mut bytes, address)?;
        match bytes[..read].iter().position(|byte| *byte == 0) {
            Some(end) => bytes.truncate(end),
            // The kernel refuses a longer one itself.
            None => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(PathBuf::from(OsString::from_vec(bytes)))
    }

    /// What the process and the thread are called in their own pid namespace.
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
