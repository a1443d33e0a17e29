//! Waiting for a child process with a time limit.

use std::io;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Returns whether the child ends within the limit. Does not reap it: the caller can still read its
/// status.
pub fn ends_within(child: &Child, limit: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + limit;
    // The child is not reaped, so the kernel cannot have reused its process id.
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(|_| Errno::OVERFLOW)?;
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn child_that_reads_its_input_ends_only_after_the_input_closes() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(!ends_within(&child, Duration::from_millis(20)).unwrap());
        drop(child.stdin.take());
        assert!(ends_within(&child, Duration::from_secs(5)).unwrap());
        assert!(child.wait().unwrap().success());
    }
}
