//! The launcher after the clone: it waits, ends everything inside, and takes down what is left.
//!
//! ```text
//!           the host is gone, or the timer expired    first process ended
//! watching ───────────────────────────▶ kill ─────────────────────▶ told ──▶ after ──▶ done
//!    └─── first process ended ──▶ told ── the host is gone ──────────────────▲
//! ```
//! The host has its answer before any of this: what a kernel needs to end a pid namespace and to
//! remove its cgroups takes longer than most programs run.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, WaitId, WaitIdOptions, WaitIdStatus};

use crate::descendants;
use crate::message;
use crate::outside::write_once;
use crate::plan::{AfterStep, Family};
use crate::remove::remove_tree;
use crate::report::{Ending, Report};

/// How long a cgroup may be called busy after its last process has ended.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the launcher watches.
pub(crate) struct Sandbox {
    /// The host. Its end, of this direction alone too, means that the sandbox is to end. What it
    /// says is for the first process inside.
    pub(crate) control: UnixStream,
    /// The first process inside.
    pub(crate) handle: OwnedFd,
    /// Expires when everything inside must have ended. The host sets it, and may be stopped.
    pub(crate) timer: Option<OwnedFd>,
    /// What ends everybody else with it.
    pub(crate) family: Family,
    pub(crate) after: Vec<AfterStep>,
}

/// Waits for the end and carries out what comes after it. Returns the code to end with.
pub(crate) fn supervise(mut sandbox: Sandbox) -> u8 {
    // Whatever failed, nothing may stay; killing a process that has ended does nothing.
    let _ = wait_for_end(&sandbox);
    kill(&sandbox);
    let ending = reap(&sandbox.handle);
    let all_ended = match sandbox.family {
        // The kernel has reaped everybody before the first process.
        Family::Namespaces { .. } => true,
        Family::Descendants(reach) => descendants::reap(reach, Instant::now() + PATIENCE),
    };
    if let Ok(ending) = ending {
        // The host may have gone without waiting for this.
        let _ = message::send(&mut sandbox.control, &Report::Ended(ending), &[]);
    }
    // What the groups have counted goes with them, and tells the host why the first process ended.
    let _ = wait_for_host(&sandbox.control);
    let done = sandbox
        .after
        .iter()
        .map(take_down)
        .fold(ending.is_ok() && all_ended, |all, one| all && one);
    u8::from(!done)
}

/// Returns when the host is gone, the first process has ended or the time is over.
fn wait_for_end(sandbox: &Sandbox) -> io::Result<()> {
    let mut watched = vec![
        PollFd::new(&sandbox.control, PollFlags::RDHUP),
        PollFd::new(&sandbox.handle, PollFlags::IN),
    ];
    watched.extend(sandbox.timer.iter().map(|timer| PollFd::new(timer, PollFlags::IN)));
    wait_for(&mut watched)
}

/// Returns when the host wants nothing more of the sandbox, or is gone. What it may still be saying
/// to the first process is for nobody: it is read, so that the host comes to its end.
fn wait_for_host(mut control: &UnixStream) -> io::Result<()> {
    io::copy(&mut control, &mut io::sink())?;
    Ok(())
}

fn wait_for(watched: &mut [PollFd<'_>]) -> io::Result<()> {
    loop {
        match poll(watched, None) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills the first process, and with it the whole pid namespace or everybody in reach, and every
/// group that can be.
fn kill(sandbox: &Sandbox) {
    // An error says that it has ended.
    let _ = rustix::process::pidfd_send_signal(&sandbox.handle, Signal::KILL);
    if let Family::Descendants(reach) = sandbox.family {
        descendants::kill(reach);
    }
    for step in &sandbox.after {
        if let AfterStep::KillCgroup { file } = step {
            // A group that somebody has removed has nothing left to kill.
            let _ = write_once(file, "1");
        }
    }
}

/// Ends a first process in which nothing has been started, and waits until it is gone.
pub(crate) fn end(handle: &OwnedFd) {
    // An error of either says that there is nothing to end or to wait for.
    let _ = rustix::process::pidfd_send_signal(handle, Signal::KILL);
    let _ = wait(handle);
}

fn reap(handle: &OwnedFd) -> io::Result<Ending> {
    let status = wait(handle)?;
    let usage = stockade_sys::children_usage()?;
    Ok(Ending {
        code: status.exit_status(),
        signal: status.terminating_signal(),
        cpu_micros: u64::try_from(usage.cpu_time.as_micros()).unwrap_or(u64::MAX),
        largest_bytes: usage.largest_bytes,
    })
}

pub(crate) fn wait(handle: &OwnedFd) -> io::Result<WaitIdStatus> {
    loop {
        match rustix::process::waitid(WaitId::PidFd(handle.as_fd()), WaitIdOptions::EXITED) {
            Ok(Some(status)) => return Ok(status),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether a step left nothing.
fn take_down(step: &AfterStep) -> bool {
    match step {
        AfterStep::KillCgroup { .. } => true,
        AfterStep::RemoveTree { directory } => remove_tree(directory).is_ok(),
        AfterStep::RemoveCgroup { directory } => remove(directory, Instant::now() + PATIENCE),
    }
}

/// Removes one directory. The kernel may call it busy for a moment after its last process ended.
fn remove(directory: &Path, deadline: Instant) -> bool {
    let mut pause = Duration::from_micros(200);
    loop {
        match std::fs::remove_dir(directory) {
            Ok(()) => return true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
            Err(_) if Instant::now() < deadline => std::thread::sleep(pause),
            Err(_) => return false,
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
