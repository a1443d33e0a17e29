//! Everybody below the launcher, where no pid namespace holds them together.
//!
//! ```text
//! prepare ──▶ orphans come to the launcher, and whom it reaches is proven
//!    │
//!    └─ the end ──▶ one signal to everybody in reach ──▶ reaped, until none is left
//! ```
//! The signal goes to all at once, as kill(2) does for -1: the kernel holds the list of processes
//! still meanwhile, so that nobody escapes by forking.

use std::io;
use std::time::{Duration, Instant};

use landlock::{CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus, Scope};
use rustix::io::Errno;
use rustix::process::{Signal, Uid, WaitOptions, getpid, getppid, test_kill_process, wait};
use rustix::thread::{CapabilitySet, CapabilitySets};
use stockade_sys::{Cloned, Namespaces, clone_process, signal_all_processes};

use crate::plan::Reach;
use crate::supervise;

/// How often those who have not ended yet are killed again: a helper may have failed.
const AGAIN: Duration = Duration::from_millis(20);

/// Makes the launcher the one to whom orphans come, and sees whom it will reach. The error comes
/// with the name of what failed.
pub(crate) fn prepare(reach: Reach) -> Result<(), (&'static str, io::Error)> {
    rustix::process::set_child_subreaper(Some(getpid()))
        .map_err(|error| ("adopt_orphans", error.into()))?;
    match reach {
        Reach::Domain => hold_signals().map_err(|error| ("hold_signals", error)),
        Reach::User(_) => Ok(()),
    }
}

/// Puts the launcher into a Landlock domain that signals do not leave. Everybody below it is in the
/// same or a narrower one, and nobody else is.
fn hold_signals() -> io::Result<()> {
    let starter =
        getppid().ok_or_else(|| wrong("the process that started the launcher is gone"))?;
    // Shows that it is the domain that holds signals back, and not that nobody was reached before.
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

/// Kills everybody in reach. Those who are gone already need no more.
pub(crate) fn kill(reach: Reach) {
    // An error says that nobody is left, or is met again by whoever waits for the end.
    let _ = match reach {
        Reach::Domain => signal_all_processes(Signal::KILL),
        Reach::User(user) => kill_as(user),
    };
}

/// Kills everybody who runs as a user that only one sandbox has, in a process that may signal
/// nobody else.
fn kill_as(user: u32) -> io::Result<()> {
    match clone_process(Namespaces::NONE, None)? {
        Cloned::Child => {
            let done = become_killer(user).and_then(|()| signal_all_processes(Signal::KILL));
            std::process::exit(i32::from(done.is_err()))
        }
        Cloned::Original { handle, .. } => supervise::wait(&handle).map(|_| ()),
    }
}

/// May signal the user, and is not to be signalled by it: the kernel compares the sender's effective
/// id with the real and the saved one of whoever is signalled, kill(2).
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

/// Reaps everybody. Whether all have ended by then.
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
