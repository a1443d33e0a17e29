//! The descendants of the launcher, in a wall without a pid namespace.
//!
//! ```text
//! prepare ──▶ becomes the subreaper, and checks which processes its signals reach
//!    │
//!    └─ the end ──▶ one signal to every process in reach ──▶ reaps until no child is left
//! ```
//! kill(2) with -1 signals all processes in one call: the kernel holds its process list locked
//! meanwhile, so that no process escapes by forking.

use std::io;
use std::time::{Duration, Instant};

use landlock::{CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus, Scope};
use rustix::io::Errno;
use rustix::process::{Signal, Uid, WaitOptions, getpid, getppid, test_kill_process, wait};
use rustix::thread::{CapabilitySet, CapabilitySets};
use stockade_sys::{Cloned, Namespaces, clone_process, signal_all_processes};

use crate::plan::Reach;
use crate::supervise;

/// How often to kill the remaining processes again: a helper process may have failed.
const AGAIN: Duration = Duration::from_millis(20);

/// Makes the launcher the subreaper of its descendants, and checks which processes its signals
/// reach. An error comes with the name of the failed step.
pub(crate) fn prepare(reach: Reach) -> Result<(), (&'static str, io::Error)> {
    rustix::process::set_child_subreaper(Some(getpid()))
        .map_err(|error| ("adopt_orphans", error.into()))?;
    match reach {
        Reach::Domain => hold_signals().map_err(|error| ("hold_signals", error)),
        Reach::User(_) => Ok(()),
    }
}

/// Puts the launcher into a Landlock domain that signals do not leave. It contains the descendants
/// of the launcher and no other process.
fn hold_signals() -> io::Result<()> {
    let starter =
        getppid().ok_or_else(|| wrong("the process that started the launcher is gone"))?;
    // Proves that the domain blocks the signal: before, it could be sent.
    test_kill_process(starter)?;
    stockade_sys::set_no_new_privs()?;
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::Signal)
        .and_then(|ruleset| ruleset.create())
        .and_then(|ruleset| ruleset.restrict_self())
        .map_err(io::Error::other)?;
    if status.ruleset != RulesetStatus::FullyEnforced {
        return Err(wrong("Landlock does not hold signals back"));
    }
    match test_kill_process(starter) {
        Err(Errno::PERM) => Ok(()),
        _ => Err(wrong("a signal would leave the sandbox")),
    }
}

/// Kills every process in reach.
pub(crate) fn kill(reach: Reach) {
    // Fails if no process is left; `reap` tries again after any other error.
    let _ = match reach {
        Reach::Domain => signal_all_processes(Signal::KILL),
        Reach::User(user) => kill_as(user),
    };
}

/// Kills every process of a user id that belongs to one sandbox. Uses a child process that may
/// signal no other processes.
fn kill_as(user: u32) -> io::Result<()> {
    match clone_process(Namespaces::NONE, None)? {
        Cloned::Child => {
            let done = become_killer(user).and_then(|()| signal_all_processes(Signal::KILL));
            std::process::exit(i32::from(done.is_err()))
        }
        Cloned::Original { handle, .. } => supervise::wait(&handle).map(|_| ()),
    }
}

/// Takes ids with which it may signal the user's processes but they may not signal it: the kernel
/// compares the sender's ids with the target's real and saved ones, kill(2).
fn become_killer(user: u32) -> io::Result<()> {
    let (own, theirs) = (Uid::from_raw(user + 1), Uid::from_raw(user));
    rustix::thread::set_thread_res_uid(own, theirs, own)?;
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, none)?;
    let (real, effective) = (rustix::process::getuid(), rustix::process::geteuid());
    match (real, effective) == (own, theirs) && rustix::thread::capabilities(None)? == none {
        true => Ok(()),
        false => Err(wrong("the ids of the sandbox could not be taken")),
    }
}

/// Reaps all children. Returns whether all ended before the deadline.
pub(crate) fn reap(reach: Reach, deadline: Instant) -> bool {
    let mut again = Instant::now() + AGAIN;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => continue,
            Err(_) => return true,
            Ok(None) => {}
        }
        let now = Instant::now();
        if now > deadline {
            return false;
        }
        if now > again {
            kill(reach);
            again = now + AGAIN;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
