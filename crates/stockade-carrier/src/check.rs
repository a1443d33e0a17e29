//! Starts the carried guest once, outside any wall, to check that it runs and answers.
//!
//! ```text
//! sealed file ──▶ started ── hello ──▶ answered ── end of stream ──▶ ended with 0
//! ```
//! On any error, and at the deadline, the guest is killed and reaped.

use std::env::consts::ARCH;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use stockade_sys::{close_on_exec_from, ends_within};
use stockade_wire::{GuestExit, GuestVersion, HelloReply};
use tokio::time::timeout;

use crate::carried::{CarryError, guest_bytes, guest_file};
use crate::elf::{check_static, machine_of};
use crate::link::{Link, LinkError, LinkSettings, Liveness};

/// The result of starting the carried guest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GuestCheck {
    /// The release that the guest reports.
    pub version: GuestVersion,
    /// The size of the carried executable.
    pub size_bytes: usize,
    /// Whether the carried bytes need neither a loader nor a library, according to their ELF
    /// headers.
    pub is_static: bool,
    /// The time from creating the file to the checked reply.
    pub answered_in: Duration,
}

/// Why the check of the carried guest failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CarrierError {
    /// There is no file to start.
    #[error(transparent)]
    Carry(#[from] CarryError),
    /// Creating a socket pair or a thread failed.
    #[error("cannot prepare the stream to the guest")]
    Prepare {
        /// The error of the kernel.
        #[source]
        source: io::Error,
    },
    /// The kernel refused to execute it.
    #[error("cannot start the guest from {path}")]
    Start {
        /// The path that was executed.
        path: String,
        /// The error of the kernel.
        #[source]
        source: io::Error,
    },
    /// It ran, but its answer was wrong.
    #[error("the guest did not answer the handshake")]
    Handshake {
        /// The error of the link.
        #[source]
        source: LinkError,
    },
    /// It ran, but did not answer.
    #[error("the guest did not answer the handshake within {limit:?}")]
    Silent {
        /// The deadline.
        limit: Duration,
    },
    /// Waiting for its end failed.
    #[error("cannot wait for the guest to end")]
    Wait {
        /// The error of the kernel.
        #[source]
        source: io::Error,
    },
    /// It answered, but did not exit.
    #[error("the guest did not end within {limit:?} of the end of its stream")]
    Stayed {
        /// The deadline.
        limit: Duration,
    },
    /// It answered and then exited with an error.
    #[error("the guest answered and then ended with {status} ({exit:?})")]
    BadEnd {
        /// Its exit status.
        status: ExitStatus,
        /// The meaning of the status, if it is a code of the guest.
        exit: Option<GuestExit>,
    },
}

/// Starts the carried guest from a sealed memfd, checks its handshake and waits for its end.
pub fn check_guest() -> Result<GuestCheck, CarrierError> {
    const LIMIT: Duration = Duration::from_secs(5);
    let started = Instant::now();
    let (host, inside) = UnixStream::pair().map_err(|source| CarrierError::Prepare { source })?;
    let mut guest = RunningGuest::start(&guest_file()?, inside)?;
    let reply = shake_hands(host, LIMIT)?;
    let answered_in = started.elapsed();
    guest.wait(LIMIT)?;
    Ok(GuestCheck {
        version: reply.guest_version,
        size_bytes: guest_bytes().len(),
        is_static: machine_of(ARCH).is_some_and(|it| check_static(guest_bytes(), it).is_ok()),
        answered_in,
    })
}

/// Does the handshake, then closes the stream, at which the guest exits.
fn shake_hands(host: UnixStream, limit: Duration) -> Result<HelloReply, CarrierError> {
    let prepare = |source| CarrierError::Prepare { source };
    let converse = async {
        let settings = LinkSettings { executions: 1, liveness: Liveness::EndOfStream };
        let link = Link::open_socket(host, None, settings)
            .map_err(|source| CarrierError::Handshake { source })?;
        match timeout(limit, link.hello()).await {
            Ok(reply) => reply.map_err(|source| CarrierError::Handshake { source }),
            Err(_) => Err(CarrierError::Silent { limit }),
        }
    };
    // On a separate thread: a caller inside a runtime could not start another one.
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .spawn_scoped(scope, move || runtime().map_err(prepare)?.block_on(converse))
            .map_err(prepare)?;
        match thread.join() {
            Ok(reply) => reply,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// A guest process; dropping it kills and reaps it.
struct RunningGuest {
    child: Child,
}

impl RunningGuest {
    /// Starts the executable in `file` with only the stream, as descriptor 0.
    fn start(file: &OwnedFd, stream: UnixStream) -> Result<RunningGuest, CarrierError> {
        // In the child `/proc/self` is the child, which still has the descriptor: exec closes it
        // only after the kernel has opened the file.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        // The parent process may have leaked descriptors without close-on-exec.
        close_on_exec_from(3).map_err(|source| CarrierError::Prepare { source })?;
        let child = Command::new(&path)
            .env_clear()
            .stdin(OwnedFd::from(stream))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|source| CarrierError::Start { path, source })?;
        Ok(RunningGuest { child })
    }

    fn wait(&mut self, limit: Duration) -> Result<(), CarrierError> {
        let wait_error = |source| CarrierError::Wait { source };
        if !ends_within(&self.child, limit).map_err(wait_error)? {
            return Err(CarrierError::Stayed { limit });
        }
        let status = self.child.wait().map_err(wait_error)?;
        match status.code().and_then(GuestExit::from_code) {
            Some(GuestExit::Done) => Ok(()),
            exit => Err(CarrierError::BadEnd { status, exit }),
        }
    }
}

impl Drop for RunningGuest {
    fn drop(&mut self) {
        // Both fail only for a child that is already reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::net::Shutdown;
    use std::path::Path;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    fn guest() -> (RunningGuest, UnixStream) {
        let (host, inside) = UnixStream::pair().unwrap();
        (RunningGuest::start(&guest_file().unwrap(), inside).unwrap(), host)
    }

    #[test]
    fn carried_guest_answers_and_ends() {
        let check = check_guest().unwrap();
        assert_eq!(check.version.as_str(), env!("CARGO_PKG_VERSION"));
        assert_eq!(check.size_bytes, guest_bytes().len());
        assert!(check.is_static);
    }

    #[test]
    fn guest_refuses_garbage_with_its_own_exit_code() {
        let (mut guest, mut host) = guest();
        host.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        host.shutdown(Shutdown::Write).unwrap();
        let refused = guest.wait(LIMIT);
        let expected = Some(GuestExit::Malformed);
        assert!(
            matches!(refused, Err(CarrierError::BadEnd { exit, .. }) if exit == expected),
            "{refused:?}"
        );
    }

    #[test]
    fn guest_ends_when_the_host_goes_away() {
        let (mut guest, host) = guest();
        drop(host);
        let ended = guest.wait(LIMIT);
        let expected = Some(GuestExit::Closed);
        assert!(
            matches!(ended, Err(CarrierError::BadEnd { exit, .. }) if exit == expected),
            "{ended:?}"
        );
    }

    #[test]
    fn guest_that_does_not_exit_is_reported_and_killed_on_drop() {
        let (mut guest, _host) = guest();
        let process = format!("/proc/{}", guest.child.id());
        let stayed = guest.wait(Duration::from_millis(20));
        assert!(matches!(stayed, Err(CarrierError::Stayed { .. })), "{stayed:?}");
        drop(guest);
        assert!(!Path::new(&process).exists());
    }

    #[test]
    fn guest_has_no_environment_and_holds_neither_its_own_file_nor_the_host_end() {
        // The guest is not dumpable, so only root may inspect it, proc(5).
        if !rustix::process::geteuid().is_root() {
            let _ =
                writeln!(io::stderr(), "guest tests: not for this user: only root looks into it");
            return;
        }
        let (guest, host) = guest();
        let process = format!("/proc/{}", guest.child.id());
        assert!(fs::read(format!("{process}/environ")).unwrap().is_empty());
        let host_end = fs::read_link(format!("/proc/self/fd/{}", host.as_raw_fd())).unwrap();
        for entry in fs::read_dir(format!("{process}/fd")).unwrap() {
            // The guest runs meanwhile and may have closed this descriptor since the listing.
            let Ok(open) = fs::read_link(entry.unwrap().path()) else { continue };
            assert!(
                open != host_end && !open.to_string_lossy().contains("memfd:stockade-guest"),
                "{open:?}"
            );
        }
    }
}
