//! A terminal that is closed while a program runs in it.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use stockade_testing::skipped;

use crate::leftovers::{Host, binary, walls_can_be_built};
use crate::rounds::nothing_runs_within;

#[test]
fn closed_terminal_ends_the_run_and_leaves_nothing() {
    if !walls_can_be_built() {
        return;
    }
    let Ok(terminal) = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
    else {
        return skipped("terminals", "no terminal can be made here");
    };
    let host = Host::alone();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let path = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
    let inner = || OpenOptions::new().read(true).write(true).open(path).unwrap();
    // The program ignores SIGHUP and starts a process in another session.
    let script = "trap '' HUP; (setsid sleep 60 &); echo ran; sleep 60";
    // The caller of the tests may ignore SIGHUP, which child processes inherit.
    let mut child = Command::new("env")
        .args(["--default-signal", "setsid", "--ctty"])
        .arg(binary())
        .args(["run", "--", "sh", "-c", script])
        .stdin(inner())
        .stdout(inner())
        .stderr(inner())
        .spawn()
        .expect("env starts");
    let mut terminal = File::from(terminal);
    terminal.read_exact(&mut [0; 3]).unwrap();
    drop(terminal);
    let pid = child.id();
    assert!(stockade_sys::ends_within(&child, Duration::from_secs(5)).unwrap(), "it goes on");
    child.wait().unwrap();
    nothing_runs_within(Duration::from_secs(1)).unwrap();
    host.is_as_before(&[pid]).unwrap();
}
