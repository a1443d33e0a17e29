//! Reading the hard resource limits of this process.
#![expect(unsafe_code, reason = "rustix panics where the kernel refuses getrlimit(2)")]
// UNSAFETY: one call of getrlimit(2), which fills a structure through a pointer.

use std::io;

/// A resource limit that a wall sets for the processes inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HardLimit {
    /// Open descriptors, RLIMIT_NOFILE.
    OpenFiles,
    /// Bytes in POSIX message queues, RLIMIT_MSGQUEUE.
    MessageQueues,
    /// Queued signals, RLIMIT_SIGPENDING.
    PendingSignals,
    /// Bytes of locked memory, RLIMIT_MEMLOCK.
    LockedMemory,
}

impl HardLimit {
    /// The highest value that an unprivileged process can set; `u64::MAX` if there is no bound.
    /// Fails if a seccomp filter refuses getrlimit(2).
    pub fn most(self) -> io::Result<u64> {
        let resource = match self {
            HardLimit::OpenFiles => libc::RLIMIT_NOFILE,
            HardLimit::MessageQueues => libc::RLIMIT_MSGQUEUE,
            HardLimit::PendingSignals => libc::RLIMIT_SIGPENDING,
            HardLimit::LockedMemory => libc::RLIMIT_MEMLOCK,
        };
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the kernel writes one `rlimit` through the pointer, which is valid and lives in
        // our frame.
        match unsafe { libc::getrlimit(resource, &raw mut limit) } {
            0 => Ok(limit.rlim_max),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_this_process() {
        let expected = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        let asked = HardLimit::OpenFiles.most().expect("no filter refuses getrlimit here");
        assert_eq!(asked, expected.unwrap_or(u64::MAX));
    }
}
