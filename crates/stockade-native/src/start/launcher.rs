//! The launcher as a child of this process, which reaps it unless it ends first.
//!
//! ```text
//! started ── its end ──▶ reaped ── failed or killed ──▶ this process removes the sandbox's cgroup
//!    ├────── left or dropped ──▶ reaped by a thread, then the same
//!    └────── left by a process that ends next ──▶ reaped by init, unless it has already ended
//! ```

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use stockade_cgroup::Group;

use crate::error::StartError;

/// What the process that uses a wall does after a sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostProcess {
    /// It continues, and reaps every launcher.
    #[default]
    Continues,
    /// It ends, as a command does: launchers are reparented to init.
    Exits,
}

/// A launcher that has not been reaped.
pub(crate) struct Launcher(Option<Child>);

impl Launcher {
    /// Starts a launcher with two sockets: the control socket and the guest's stream.
    pub(crate) fn start(control: UnixStream, stream: UnixStream) -> Result<Launcher, StartError> {
        let program = stockade_carrier::guest_file()?;
        // In the child `/proc/self` refers to the child, which still has the descriptor: it is
        // close-on-exec, and the kernel opens the file before it closes it.
        let child = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()))
            // Programs inside see this name, so it reveals nothing about the host.
            .arg0("stockade-guest")
            .arg("launch")
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(control))
            .stdout(OwnedFd::from(stream))
            .stderr(Stdio::null())
            .spawn()
            .map_err(StartError::prepare("start the launcher"))?;
        Ok(Launcher(Some(child)))
    }

    /// Reaps the launcher, whose control socket has already closed.
    pub(crate) fn wait(mut self) -> io::Result<ExitStatus> {
        match self.0.take() {
            Some(mut child) => child.wait(),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Lets the launcher end by itself, and releases what a failed launcher leaves. A process that
    /// ends next does not wait for that; the next start sweeps.
    pub(crate) fn leave(mut self, group: Option<Group>, user: HostProcess) {
        let Some(child) = self.0.take() else { return };
        let mut left = Left { child, group };
        match user {
            HostProcess::Continues => later(left),
            // A launcher that has already ended was killed, and no other process cleans up.
            HostProcess::Exits => {
                let status = left.child.try_wait();
                left.ended(status);
            }
        }
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        if let Some(child) = self.0.take() {
            later(Left { child, group: None });
        }
    }
}

/// A launcher that is left to end by itself, with the cgroup that it removes.
struct Left {
    child: Child,
    group: Option<Group>,
}

impl Left {
    /// Removes the cgroup if the launcher failed; returns whether the launcher has ended.
    fn ended(&mut self, status: io::Result<Option<ExitStatus>>) -> bool {
        match status {
            Ok(None) => false,
            Ok(Some(status)) if status.success() => true,
            // The launcher was killed, failed or cannot be waited for, so processes inside have no
            // supervisor.
            Ok(Some(_)) | Err(_) => {
                if let Some(group) = self.group.take() {
                    // The next sweep removes what remains.
                    let _ = group.take_back();
                }
                true
            }
        }
    }
}

/// The launchers that the reaper thread waits for in turn, and whether that thread runs.
struct Launchers {
    launchers: Vec<Left>,
    is_watched: bool,
}

static WAITING: Mutex<Launchers> =
    Mutex::new(Launchers { launchers: Vec::new(), is_watched: false });

fn later(left: Left) {
    let mut waiting = lock();
    waiting.launchers.push(left);
    if !waiting.is_watched {
        // If no thread can start, the next launcher that is left tries again.
        let watched =
            std::thread::Builder::new().name("stockade-reaper".to_owned()).spawn(reap_all);
        waiting.is_watched = watched.is_ok();
    }
}

/// Reaps all launchers in the list, including those added meanwhile.
fn reap_all() {
    loop {
        let mut waiting = lock();
        let Some(mut left) = waiting.launchers.pop() else {
            waiting.is_watched = false;
            return;
        };
        drop(waiting);
        let status = left.child.wait().map(Some);
        left.ended(status);
    }
}

fn lock() -> MutexGuard<'static, Launchers> {
    // No critical section leaves the list inconsistent, so a poisoned lock is safe to use.
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}
