//! What a limit may be raised to.
#![expect(unsafe_code, reason = "rustix panics where the kernel refuses getrlimit(2)")]
// UNSAFETY: one call of getrlimit(2), which fills a structure through a pointer.

use std::io;

/// A limit of this process that a wall sets for what is inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HardLimit {
    /// Open descriptors.
    OpenFiles,
    /// Bytes in message queues.
    MessageQueues,
    /// Signals waiting.
    PendingSignals,
    /// Locked bytes.
    LockedMemory,
}

impl HardLimit {
    /// The most it can be set to without privileges; `u64::MAX` where there is no bound. A filter
    /// may refuse the question.
    pub fn most(self) -> io::Result<u64> {
        let resource = match self {
            HardLimit::OpenFiles => libc::RLIMIT_NOFILE,
            HardLimit::MessageQueues => libc::RLIMIT_MSGQUEUE,
            HardLimit::PendingSignals => libc::RLIMIT_SIGPENDING,
            HardLimit::LockedMemory => libc::RLIMIT_MEMLOCK,
        };
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the kernel writes one `rlimit` to the pointer, which is valid for that and lives
        // in our frame.
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
        let asked = HardLimit::OpenFiles.most().expect("nothing refuses it here");
        assert_eq!(asked, expected.unwrap_or(u64::MAX));
    }
}
