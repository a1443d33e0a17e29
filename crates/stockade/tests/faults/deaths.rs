//! Kills a process of Stockade during or after the start of a sandbox.

use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::time::{Duration, Instant};

use stockade_sys::ends_within;

use crate::leftovers::{Host, Process, descendants, kill, walls_can_be_built};
use crate::refusing::Marked;

const PATIENCE: Duration = Duration::from_secs(10);

/// How many delays before the kill are tried, and the step between them.
const MOMENTS: u32 = 30;
const APART: Duration = Duration::from_micros(500);

/// Waits until a child of `parent` satisfies `wanted`, and returns its process id.
fn child_of(parent: u32, wanted: fn(u32) -> bool) -> Option<u32> {
    let deadline = Instant::now() + PATIENCE;
    let is_it = |(pid, it): &(u32, Process)| it.parent == parent && wanted(*pid);
    while Instant::now() < deadline {
        if let Some((pid, _)) = descendants().into_iter().find(is_it) {
            return Some(pid);
        }
    }
    None
}

/// Whether a process is the init of a PID namespace: its innermost process id is 1.
fn is_first(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    numbers.split_whitespace().last() == Some("1")
}

/// Waits for a run to end; returns its exit code, standard output and standard error.
fn end_of(child: Child) -> (Option<i32>, String, String) {
    assert!(ends_within(&child, PATIENCE).unwrap_or(false), "it does not end");
    let output = child.wait_with_output().expect("the child can be waited for");
    assert_eq!(output.status.signal(), None);
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn launcher_that_is_killed_at_any_moment_ends_the_run_with_125_and_leaves_nothing() {
    if !walls_can_be_built() {
        return;
    }
    let host = Host::alone();
    let marked = Marked::new();
    let mut during_start = 0;
    for moment in 0..MOMENTS {
        let mut command = marked.command_of("echo ran; exec sleep 60", &[]);
        let child = command.spawn().expect("the binary under test starts");
        let pid = child.id();
        let launcher = child_of(pid, |_| true).expect("there is a launcher");
        std::thread::sleep(APART * moment);
        kill(launcher);
        let (code, stdout, stderr) = end_of(child);
        assert_eq!(code, Some(125), "after {moment}: {stdout}{stderr}");
        assert!(!stderr.is_empty(), "after {moment}: nothing was said");
        during_start += u32::from(stderr.starts_with("error: ") && stdout.is_empty());
        host.is_as_before(&[pid]).unwrap_or_else(|left| panic!("after {moment}: {left} {stderr}"));
    }
    assert!(during_start > 0, "no moment was before the program");
}

#[test]
fn first_process_that_is_killed_ends_the_run_with_125_and_leaves_nothing() {
    if !walls_can_be_built() {
        return;
    }
    let host = Host::alone();
    let marked = Marked::new();
    for moment in 0..MOMENTS {
        let mut command = marked.command_of("echo ran; sleep 60 & exec sleep 60", &[]);
        let child = command.spawn().expect("the binary under test starts");
        let pid = child.id();
        let launcher = child_of(pid, |_| true).expect("there is a launcher");
        let first = child_of(launcher, is_first).expect("there is a first process");
        std::thread::sleep(APART * moment);
        kill(first);
        let (code, stdout, stderr) = end_of(child);
        assert_eq!(code, Some(125), "after {moment}: {stdout}{stderr}");
        host.is_as_before(&[pid]).unwrap_or_else(|left| panic!("after {moment}: {left} {stderr}"));
    }
}
