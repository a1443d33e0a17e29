//! The memory limit of a sandbox.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::{command, finish, hits, is_root, outside, report, walls_can_be_built};

/// The precision of a control in a report: `exact` or `approximate`.
fn precision<'r>(report: &'r Value, control: &str) -> &'r str {
    let controls = report["isolation"]["controls"].as_array().expect("a wall was built");
    let held = controls.iter().find(|held| held["control"] == control).expect("it is held");
    held["precision"].as_str().expect("a precision is a word")
}

#[test]
fn program_over_the_memory_limit_ends() {
    if !walls_can_be_built() {
        return;
    }
    let greedy = "b = bytearray(10**9); print(len(b))";
    assert_eq!(outside(&["python3", "-c", greedy]).text(), "1000000000\n");
    let (code, report) = report(&["--memory", "64m", "--", "python3", "-c", greedy]);
    if precision(&report, "max_memory_mb") == "exact" {
        assert_eq!((code, &report["outcome"]), (137, &json!("out_of_memory")), "{report}");
        assert_eq!(report["limit"], "max_memory_mb");
        return;
    }
    // Without a cgroup an rlimit refuses the allocation, or the watchdog ends the run.
    match report["outcome"].as_str() {
        Some("limit_exceeded") => {
            assert_eq!((code, &report["limit"]), (122, &json!("max_memory_mb")));
        }
        _ => {
            assert_eq!((code, &report["outcome"]), (1, &json!("exited")), "{report}");
            assert!(report["stderr"].as_str().unwrap().contains("MemoryError"), "{report}");
        }
    }
}

#[test]
fn memory_limit_applies_to_the_sum_of_all_processes() {
    if !walls_can_be_built() {
        return;
    }
    let hoard = "import os, time
for n in range(8):
    if os.fork() == 0:
        kept = bytearray(b'x') * (30 << 20)
        time.sleep(30)
print(os.wait()[1])";
    let words = ["--memory", "96m", "--timeout", "20s", "--", "python3", "-c", hoard];
    let (code, report) = report(&words);
    if precision(&report, "max_memory_mb") == "exact" {
        // The kernel chose a child, or the main process itself.
        let chose_a_child = report["stdout"] == "9\n" && hits(&report, "max_memory_mb");
        assert!(chose_a_child || code == 137, "{report}");
    } else {
        assert_eq!((code, &report["limit"]), (122, &json!("max_memory_mb")), "{report}");
    }
}

#[test]
fn child_killed_for_memory_is_reported_while_its_parent_succeeds() {
    if !walls_can_be_built() {
        return;
    }
    let program = "import subprocess, sys
child = subprocess.run([sys.executable, '-c', 'b = bytearray(b\"x\") * 10**9'])
print('child', child.returncode)";
    let (code, report) = report(&["--memory", "64m", "--", "python3", "-c", program]);
    if precision(&report, "max_memory_mb") == "exact" {
        assert_eq!((code, &report["stdout"]), (0, &json!("child -9\n")), "{report}");
        assert!(hits(&report, "max_memory_mb"), "{report}");
    } else {
        assert!([0, 122].contains(&code), "{report}");
        assert_ne!(report["stdout"], "child 0\n");
    }
}

/// Creates and fills memory that no process maps, and prints which kinds it could create.
const UNMAPPED: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
size, made = int(sys.argv[1]), []
try:
    file = os.memfd_create('hoard')
    chunk = b'x' * (1 << 20)
    for _ in range(size >> 20): os.write(file, chunk)
    made.append('memfd')
except OSError: pass
for key in (0, 4711):
    segment = libc.shmget(key, ctypes.c_size_t(size), 0o1600)
    if segment >= 0:
        address = libc.shmat(segment, None, 0)
        ctypes.memset(address, 1, size)
        libc.shmdt(ctypes.c_void_p(address))
        libc.shmctl(segment, 0, None)
        made.append('shm')
print(made)
"#;

#[test]
fn unmapped_memory_is_limited_or_refused() {
    if !walls_can_be_built() {
        return;
    }
    let words = ["python3", "-c", UNMAPPED];
    assert_eq!(outside(&[&words[..], &["1048576"]].concat()).text(), "['memfd', 'shm', 'shm']\n");
    let limits = ["--memory", "64m", "--timeout", "20s", "--"];
    let hoard = [&limits[..], &words, &["268435456"]].concat();
    let (code, report) = report(&hoard);
    if precision(&report, "max_memory_mb") == "exact" {
        assert_eq!((code, &report["limit"]), (137, &json!("max_memory_mb")), "{report}");
    } else {
        assert_eq!((code, &report["stdout"]), (0, &json!("[]\n")), "{report}");
    }
    // Root can hide the host's cgroups with a mount.
    if is_root() {
        let report = without_cgroups(&hoard);
        assert_eq!(precision(&report, "max_memory_mb"), "approximate");
        assert_eq!((&report["outcome"], &report["stdout"]), (&json!("exited"), &json!("[]\n")));
    }
}

/// The report of a run on this host without cgroups.
fn without_cgroups(words: &[&str]) -> Value {
    let run = command(&[&["--json"], words].concat());
    let mut without = Command::new("unshare");
    let script = "mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"";
    without.args(["--mount", "sh", "-c", script, "sh"]).arg(run.get_program());
    without.args(run.get_args());
    finish(without).json()
}
