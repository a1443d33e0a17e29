//! A run leaves no process running and no file on the disk.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{can_be_built, command, reduced};
use crate::support::{Conversation, finish, is_root, not_run, processes, within};
use stockade_testing::{Scratch, set_mode};

/// How long a process may outlive its run.
const SOON: Duration = Duration::from_secs(1);

/// A script that starts a daemon, identified by `number`, in its own session and without our
/// streams. Its parents exit, and only SIGKILL ends it.
fn daemon(number: u32) -> String {
    format!(
        "(trap '' HUP TERM INT; setsid setsid sleep {number} </dev/null >/dev/null 2>&1 & ) & wait"
    )
}

fn sleeps(number: u32) -> bool {
    let line = format!("sleep {number} ");
    processes().contains(&line)
}

/// A number of seconds that no other test on this machine passes to sleep.
fn number(own: u32) -> u32 {
    1_000_000 + std::process::id() * 16 + own
}

#[test]
fn daemon_that_outlives_its_program_without_a_wall_ends_with_the_run() {
    if !can_be_built() {
        return;
    }
    let waits = |number| {
        format!("{}; while ! pgrep -fx 'sleep {number}' >/dev/null; do :; done", daemon(number))
    };
    let own = number(1);
    let mut without = Command::new("sh");
    without.args(["-c", &waits(own)]);
    assert_eq!(finish(without).code, 0);
    assert!(sleeps(own), "without the wall it stays");
    end(own);
    for (own, option, rest) in [
        (number(2), "10s", "sleep 0.2"),
        (number(3), "700ms", "sleep 600"),
        // Kills the guest, which a program behind this wall can signal.
        (number(4), "10s", "sleep 0.2; kill -9 -1"),
    ] {
        let script = format!("{}; {rest}", daemon(own));
        reduced(&["--quiet", "--timeout", option, "--", "sh", "-c", &script]);
        assert!(within(SOON, || !sleeps(own)), "`{rest}` leaves a daemon");
    }
}

#[test]
fn daemons_of_root_end_with_the_run_without_cgroups() {
    if !can_be_built() {
        return;
    }
    if !is_root() {
        return not_run("without root no cgroup was used in the first place");
    }
    const WITHOUT: &str = "mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"";
    for (own, rest) in [(number(9), "sleep 600"), (number(10), "sleep 0.2; kill -9 -1")] {
        let script = format!("{}; {rest}", daemon(own));
        let run = command(&["--json", "--timeout", "700ms", "--", "sh", "-c", &script]);
        let mut without = Command::new("unshare");
        without.args(["--mount", "sh", "-c", WITHOUT, "sh"]).arg(run.get_program());
        without.args(run.get_args());
        let report = finish(without).json();
        let controls = report["isolation"]["controls"].as_array().unwrap();
        let cleanup = controls.iter().find(|it| it["control"] == "cleanup").unwrap();
        assert!(!cleanup["mechanism"].to_string().contains("cgroup"), "{cleanup}");
        assert!(within(SOON, || !sleeps(own)), "`{rest}` leaves a daemon");
    }
}

/// Kills a sleep that a test started without a wall.
fn end(number: u32) {
    let line = format!("sleep {number} ").replace(' ', "\0");
    for entry in std::fs::read_dir("/proc").expect("processes can be listed").flatten() {
        let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if let Some(id) = id.and_then(Pid::from_raw).filter(|_| words == line.as_bytes()) {
            kill(id);
        }
    }
}

#[test]
fn fork_bomb_ends_with_its_run() {
    if !can_be_built() {
        return;
    }
    let own = number(5);
    let bomb = format!(
        "import os, time
for _ in range(10):
    try: forked = os.fork()
    except OSError: break
    if forked == 0:
        while True:
            try: forked = os.fork()
            except OSError: os.execvp('sleep', ['sleep', '{own}'])
            if forked: os._exit(0)
time.sleep(600)"
    );
    let run =
        reduced(&["--quiet", "--timeout", "1s", "--pids", "100", "--", "python3", "-c", &bomb]);
    assert!([124, 122].contains(&run.code), "{run:?}");
    assert!(within(SOON, || !sleeps(own)));
}

/// The scratch directories that a process created in `place`.
fn directories_of(place: &Path, owner: u32) -> Vec<PathBuf> {
    let prefix = format!("stockade-{owner}-");
    let entries = std::fs::read_dir(place).expect("a directory can be listed").flatten();
    let is_its = |path: &PathBuf| {
        path.file_name().is_some_and(|it| it.to_string_lossy().starts_with(&prefix))
    };
    entries.map(|entry| entry.path()).filter(is_its).collect()
}

fn child_of(parent: u32) -> Option<Pid> {
    // Any thread of the parent may have started the child.
    let threads = std::fs::read_dir(format!("/proc/{parent}/task")).ok()?.flatten();
    let children = |thread: std::fs::DirEntry| {
        std::fs::read_to_string(thread.path().join("children")).unwrap_or_default()
    };
    let children: String = threads.map(children).collect();
    children.split_whitespace().next()?.parse().ok().and_then(Pid::from_raw)
}

fn kill(id: Pid) {
    kill_process(id, Signal::KILL).expect("the process can be killed");
}

#[test]
fn scratch_directory_is_removed_however_the_run_ends() {
    if !can_be_built() {
        return;
    }
    let own = number(6);
    let place = std::env::temp_dir();
    let script = format!("mkdir -p a/b; ln -s /usr a/l; {}; echo ready; cat", daemon(own));
    let start = || {
        let mut run = Conversation::start(command(&["--quiet", "--", "sh", "-c", &script]));
        assert_eq!(run.hear(), "ready");
        assert_eq!(
            directories_of(&place, run.0.id()).len(),
            1,
            "it is there while the program runs"
        );
        run
    };
    let run = start();
    let owner = run.0.id();
    assert_eq!(run.end(), 0);
    let is_clean =
        |owner| within(SOON, || directories_of(&place, owner).is_empty() && !sleeps(own));
    assert!(is_clean(owner), "after an end of its own");
    let mut run = start();
    let owner = run.0.id();
    run.0.kill().unwrap();
    run.0.wait().unwrap();
    assert!(is_clean(owner), "after Stockade was killed");
}

#[test]
fn next_start_removes_the_scratch_directory_of_a_killed_stockade_and_launcher() {
    if !can_be_built() {
        return;
    }
    let own = number(7);
    let script = format!("{}; echo ready; cat", daemon(own));
    // A separate TMPDIR: any later start with the same one would remove the leftovers.
    let scratch = Scratch::new();
    set_mode(scratch.path(), 0o777);
    let there = |words: &[&str]| {
        let mut command = command(words);
        command.env("TMPDIR", scratch.path());
        command
    };
    let mut run = Conversation::start(there(&["--quiet", "--", "sh", "-c", &script]));
    assert_eq!(run.hear(), "ready");
    let owner = run.0.id();
    // Stops the launcher first, so that it does not see Stockade end.
    let launcher = child_of(owner).expect("Stockade has started a launcher");
    kill_process(launcher, Signal::STOP).unwrap();
    run.0.kill().unwrap();
    run.0.wait().unwrap();
    kill(launcher);
    assert!(within(SOON, || !sleeps(own)), "the guest ends everybody");
    let left = || directories_of(scratch.path(), owner);
    assert_eq!(left().len(), 1, "nobody was there to remove it");
    let other = scratch.directory("stockade-1-2");
    assert_eq!(finish(there(&["--quiet", "--", "true"])).code, 0);
    assert_eq!(left(), Vec::<PathBuf>::new());
    assert!(Path::new(&other).exists(), "what has another name is left alone");
}

#[test]
fn killed_launcher_ends_every_process() {
    if !can_be_built() {
        return;
    }
    let own = number(8);
    let script = format!("{}; echo ready; cat", daemon(own));
    let mut run = Conversation::start(command(&["--quiet", "--", "sh", "-c", &script]));
    assert_eq!(run.hear(), "ready");
    kill(child_of(run.0.id()).expect("Stockade has started a launcher"));
    assert_eq!(run.end(), 125);
    assert!(within(SOON, || !sleeps(own)));
    assert_eq!(reduced(&["--quiet", "--", "true"]).code, 0);
}
