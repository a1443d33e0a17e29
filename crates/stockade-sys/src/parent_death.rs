//! Programs that end with the process that started them.
#![expect(unsafe_code, reason = "only pre_exec runs code between fork and exec")]
// UNSAFETY: the code between fork and exec makes three system calls and touches neither memory nor
// locks.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes the kernel kill the program when the thread that starts it ends, for any reason. Start the
/// program on a thread that lives as long as the program may. See PR_SET_PDEATHSIG, prctl(2).
///
/// The program inherits none of this process's own inherited descriptors except the three standard
/// streams.
///
/// The program's own children are not killed with it, and a set-user-ID program is not killed at
/// all.
pub fn kill_with_parent(command: &mut Command) {
    let parent = std::process::id();
    let ask = move || {
        // SAFETY: prctl takes integers by value here, and changes only the calling process.
        let asked = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
        if asked != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: getppid has no arguments and no effects.
        let now = unsafe { libc::getppid() };
        // A parent that ended before the prctl call sends no signal any more.
        if u32::try_from(now) != Ok(parent) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        // SAFETY: close_range takes integers by value; with CLOSE_RANGE_CLOEXEC it closes nothing
        // before exec.
        let closed = unsafe {
            libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
        };
        // Linux before 5.11 lacks the flag; descriptors that this process opens have FD_CLOEXEC
        // anyway.
        let _ = closed;
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe code may run: all these calls are, and
    // `io::Error::from_raw_os_error` does not allocate.
    unsafe { command.pre_exec(ask) };
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ends_within;

    #[test]
    fn program_ends_with_the_thread_that_started_it() {
        let start = |is_bound: bool| {
            let started = std::thread::spawn(move || {
                let mut command = Command::new("sleep");
                command.arg("1000");
                if is_bound {
                    kill_with_parent(&mut command);
                }
                command.spawn().unwrap()
            });
            started.join().unwrap()
        };
        let (mut bound, mut free) = (start(true), start(false));
        assert!(ends_within(&bound, Duration::from_secs(10)).unwrap());
        assert!(!ends_within(&free, Duration::from_millis(50)).unwrap());
        free.kill().unwrap();
        free.wait().unwrap();
        let status = bound.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));
    }

    #[test]
    fn program_does_not_inherit_descriptors_that_this_process_inherited() {
        use std::os::fd::AsRawFd;

        let (given, _writer) = rustix::pipe::pipe().unwrap();
        assert!(
            rustix::io::fcntl_getfd(&given).unwrap().is_empty(),
            "the descriptor closes on exec by itself"
        );
        let has_it = |is_bound: bool| {
            let mut command = Command::new("test");
            command.arg("-e").arg(format!("/proc/self/fd/{}", given.as_raw_fd()));
            if is_bound {
                kill_with_parent(&mut command);
            }
            command.status().unwrap().success()
        };
        assert!(has_it(false), "no descriptor is inherited at all");
        assert!(!has_it(true));
    }
}
