//! Limits of a sandbox that has no file system of its own.

use std::process::Command;
use std::time::{Duration, Instant};

use super::{ASKED, PROGRAMS, can_be_built, outside, reduced, report};
use crate::support::{binary, finish};

#[test]
fn disk_limit_applies_to_each_file_and_to_the_total() {
    if !can_be_built() {
        return;
    }
    let fits = "head -c 3m /dev/zero > a; head -c 3m /dev/zero > b; sleep 0.4; echo fits";
    assert_eq!(reduced(&["-q", "--disk", "8m", "--", "sh", "-c", fits]).text(), "fits\n");
    let one = reduced(&["-q", "--disk", "8m", "--", "sh", "-c", "head -c 20m /dev/zero > a"]);
    // By SIGXFSZ, or by the watchdog that adds up the directory, whichever comes first.
    assert!([128 + 25, 122].contains(&one.code), "one file ends at the limit: {one:?}");
    let many =
        "mkdir -m 300 hidden; i=0; while :; do i=$((i+1)); head -c 2m /dev/zero > hidden/$i; done";
    let report = report(&["--disk", "8m", "--timeout", "20s", "--", "sh", "-c", many]);
    assert_eq!(
        (&report["outcome"], &report["limit"]),
        (&"limit_exceeded".into(), &"max_disk_mb".into())
    );
}

#[test]
fn inodes_memory_and_processes_are_bounded() {
    if !can_be_built() {
        return;
    }
    let scratch = stockade_testing::Scratch::new();
    let policy = scratch.file("p.yaml", "isolation: reduced\nlimits: { max_inodes: 100 }\n");
    let many = "i=0; while :; do i=$((i+1)); : > $i; done";
    let start =
        ["run", "--json", "--provider", "reduced", "--policy", &policy, "--", "sh", "-c", many];
    let json = crate::support::finish(super::words(&start)).json();
    assert_eq!(
        (&json["outcome"], &json["limit"]),
        (&"limit_exceeded".into(), &"max_inodes".into())
    );
    let hungry = "x = []
while True: x.append(bytearray(b'x') * (8 << 20))";
    let json = report(&["--memory", "64m", "--timeout", "20s", "--", "python3", "-c", hungry]);
    let ended = ["out_of_memory", "limit_exceeded", "exited"];
    assert!(ended.iter().any(|outcome| json["outcome"] == *outcome), "{json}");
    assert_ne!(json["exit_code"], 0, "{json}");
    let forks = "import os, time
made = 0
try:
    while made < 200:
        if os.fork() == 0: time.sleep(600)
        made += 1
    time.sleep(5)
except OSError: pass
print(made)";
    let json = report(&["--pids", "20", "--timeout", "20s", "--", "python3", "-c", forks]);
    let made = json["stdout"].as_str().and_then(|it| it.trim().parse::<u32>().ok());
    let is_held = json["limit"] == "max_pids" || made.is_some_and(|made| made < 20);
    assert!(is_held, "{json}");
}

/// Forks without end, pinned to the same CPU as the processes of Stockade that must end it.
const BOMB: &str = "import os
while True:
    try: os.fork()
    except OSError: pass";

#[test]
fn fork_bomb_on_the_cpu_of_stockade_does_not_delay_its_end() {
    if !can_be_built() {
        return;
    }
    let mut bomb = Command::new("taskset");
    bomb.args(["--cpu-list", "0"]).arg(binary()).args(["run", "--json"]).args(ASKED);
    bomb.args(["--timeout", "2s", "--", "python3", "-c", BOMB]).env("PATH", PROGRAMS);
    let start = Instant::now();
    let json = finish(bomb).json();
    let took = start.elapsed();
    let ended = ["timed_out", "limit_exceeded", "out_of_memory"];
    assert!(ended.iter().any(|outcome| json["outcome"] == *outcome), "{json}");
    assert!(took < Duration::from_secs(12), "{took:?}: {json}");
}

#[test]
fn unmapped_memfds_cannot_exceed_the_memory_limit() {
    if !can_be_built() {
        return;
    }
    let fill = "import os
made = [os.memfd_create('file') for _ in range(25)]
for file in made: os.write(file, bytes(8 << 20))
print('200 MiB')";
    assert_eq!(outside(fill, &[]).text(), "200 MiB\n");
    let json = report(&["--memory", "64m", "--", "python3", "-c", fill]);
    assert_eq!((&json["stdout"], json["exit_code"] == 0), (&"".into(), false), "{json}");
}
