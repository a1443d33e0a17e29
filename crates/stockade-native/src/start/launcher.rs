//! The launcher as a child of this process: it is waited for, whatever happens meanwhile.
//!
//! ```text
//! started ── its end ──▶ waited for ── failed or killed ──▶ its sandbox's group is removed here
//!    ├────── left or dropped ──▶ waited for by a thread, then the same
//!    └────── left by a process that ends next ──▶ the system's to wait for, unless it has ended
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
pub enum User {
    /// It goes on: whatever a sandbox leaves is waited for.
    #[default]
    Stays,
    /// It ends, as a command does: waiting for launchers is left to the system.
    EndsNext,
}

/// A launcher that has not been waited for.
pub(crate) struct Launcher(Option<Child>);

impl Launcher {
    /// Starts a launcher between the two sockets: the host's, and the guest's stream.
    pub(crate) fn start(control: UnixStream, stream: UnixStream) -> Result<Launcher, StartError> {
        let program = stockade_carrier::guest_file()?;
        // In the child `/proc/self` is the child, which still has the descriptor: it closes on exec,
        // after the kernel has opened the file behind it.
        let child = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()))
            // The name that programs inside see says nothing of the host.
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

    /// Waits for the end, which is near: the control socket has ended.
    pub(crate) fn wait(mut self) -> io::Result<ExitStatus> {
        match self.0.take() {
            Some(mut child) => child.wait(),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Lets it end by itself. What it cannot take down any more is taken down here; where this
    /// process ends next, it does not wait for that, and the next start sweeps.
    pub(crate) fn leave(mut self, group: Option<Group>, user: User) {
        let Some(child) = self.0.take() else { return };
        let mut left = Left { child, group };
        match user {
            User::Stays => later(left),
            // One that has ended already was killed, and nobody else is here.
            User::EndsNext => {
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

/// A launcher that nobody waits for any more, with the group that it removes.
struct Left {
    child: Child,
    group: Option<Group>,
}

impl Left {
    /// Takes down what the launcher did not, if it has ended.
    fn ended(&mut self, status: io::Result<Option<ExitStatus>>) -> bool {
        match status {
            Ok(None) => false,
            Ok(Some(status)) if status.success() => true,
            // Killed, failed, or not to be waited for: whoever is inside has no supervisor.
            Ok(Some(_)) | Err(_) => {
                if let Some(group) = self.group.take() {
                    // What stays is found by the next sweep.
                    let _ = group.take_back();
                }
                true
            }
        }
    }
}

/// The launchers that a thread waits for, one after another, and whether there is one.
struct Waiting {
    launchers: Vec<Left>,
    is_watched: bool,
}

static WAITING: Mutex<Waiting> = Mutex::new(Waiting { launchers: Vec::new(), is_watched: false });

fn later(left: Left) {
    let mut waiting = lock();
    waiting.launchers.push(left);
    if !waiting.is_watched {
        // Without a thread they are waited for when the next one is left.
        let watched = std::thread::Builder::new().name("stockade-reaper".to_owned()).spawn(watch);
        waiting.is_watched = watched.is_ok();
    }
}

/// Waits for all that are left and for those that come meanwhile.
fn watch() {
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

fn lock() -> MutexGuard<'static, Waiting> {
    // No step leaves the list half changed, so a panic elsewhere does not spoil it.
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}
