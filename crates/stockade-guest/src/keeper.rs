//! Keepers: one process above the processes of an execution, so that they stay together.
//!
//! ```text
//! guest ── keeper, a subreaper ── program ── …
//!            reports the start ──▶ the program ended ──▶ no process is left: ends as the program did
//!                                        └── some are left: reports that; the guest kills them ──▲
//! ```
//! Only where no cgroup holds an execution, and only while another execution runs: the processes of
//! one execution are those that no keeper keeps. A program that kills its keeper makes the guest end
//! every execution, because it can no longer tell them apart.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};
use stockade_sys::{Forked, close_inherited_from, default_signal, fork_process};

/// The keeper of an execution, and the pipe on which it reports.
pub(crate) struct Keeper {
    pub(crate) pid: Pid,
    pub(crate) report: OwnedFd,
}

/// The reports of a keeper after the start: processes are left, and none is left.
pub(crate) const LEFT: u8 = b'l';
pub(crate) const DONE: u8 = b'd';

/// The length of the first report: an errno, or zero and the process id.
const START_BYTES: usize = 8;

/// Starts a program below a new keeper. Returns once the program is executed, or with the error why
/// it is not.
pub(crate) fn start(spawn: impl FnOnce() -> io::Result<Pid>) -> io::Result<(Pid, Keeper)> {
    let (reader, writer) = io::pipe()?;
    let keeper = match fork_process()? {
        Forked::Child => {
            drop(reader);
            keep(spawn, writer.into())
        }
        Forked::Original { child } => child,
    };
    drop(writer);
    let mut report = File::from(OwnedFd::from(reader));
    let mut start = [0; START_BYTES];
    report.read_exact(&mut start)?;
    let [first, second] = [&start[..4], &start[4..]]
        .map(|bytes| i32::from_le_bytes(bytes.try_into().expect("four bytes are four bytes")));
    match (first, Pid::from_raw(second)) {
        (0, Some(program)) => Ok((program, Keeper { pid: keeper, report: report.into() })),
        (errno, _) => {
            let _ = rustix::process::waitpid(Some(keeper), WaitOptions::empty());
            Err(io::Error::from_raw_os_error(errno))
        }
    }
}

/// The keeper. It never returns, because it is a copy of the guest.
fn keep(spawn: impl FnOnce() -> io::Result<Pid>, report: OwnedFd) -> ! {
    // gVisor before 2023 lacks subreapers and answers EINVAL, which would blame the program.
    let adopts = set_child_subreaper(Some(getpid())).map_err(|_| io::Error::from(Errno::NOSYS));
    let started = adopts.and_then(|()| spawn());
    let program = match started {
        Ok(program) => {
            tell_start(report.as_fd(), 0, program.as_raw_nonzero().get());
            program
        }
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
            tell_start(report.as_fd(), errno, 0);
            std::process::exit(1)
        }
    };
    // The guest's descriptors must end with the guest, and the program's pipes with the program.
    if rustix::stdio::dup2_stdin(&report).is_err() || close_inherited_from(1).is_err() {
        std::process::exit(1)
    }
    std::mem::forget(report);
    let mut status = None;
    let mut has_told = false;
    loop {
        match wait(if status.is_none() || has_told {
            WaitOptions::empty()
        } else {
            WaitOptions::NOHANG
        }) {
            Ok(Some((pid, ended))) if pid == program => status = Some(ended),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => {
                tell(LEFT);
                has_told = true;
            }
            // ECHILD: no process is left.
            Err(_) => break,
        }
    }
    tell(DONE);
    let code = status.and_then(|status| status.exit_status());
    if let Some(signal) = status.and_then(|status| status.terminating_signal())
        && let Some(signal) = Signal::from_named_raw(signal)
    {
        let _ = default_signal(signal);
        let _ = kill_process(getpid(), signal);
    }
    std::process::exit(code.unwrap_or(1))
}

fn tell_start(report: impl AsFd, errno: i32, program: i32) {
    let bytes = [errno.to_le_bytes(), program.to_le_bytes()].concat();
    // Fails only if the guest is gone, and the keeper with it.
    let _ = rustix::io::write(report, &bytes);
}

/// Reports on standard input, which is the pipe.
fn tell(report: u8) {
    let _ = File::from(match rustix::stdio::stdin().try_clone_to_owned() {
        Ok(pipe) => pipe,
        Err(_) => return,
    })
    .write_all(&[report]);
}
