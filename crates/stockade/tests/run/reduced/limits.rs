//! Limits without a file system of the sandbox's own.

use super::{can_be_built, reduced, report};

#[test]
fn disk_is_bounded_by_file_and_in_all() {
    if !can_be_built() {
        return;
    }
    let fits = "head -c 3m /dev/zero > a; head -c 3m /dev/zero > b; sleep 0.4; echo fits";
    assert_eq!(reduced(&["-q", "--disk", "8m", "--", "sh", "-c", fits]).text(), "fits\n");
    let one = reduced(&["-q", "--disk", "8m", "--", "sh", "-c", "head -c 20m /dev/zero > a"]);
    assert_eq!(one.code, 128 + 25, "one file ends at the limit: {one:?}");
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
    let scratch = crate::scratch::Scratch::new();
    let policy = scratch.file("p.yaml", "isolation: reduced\nlimits: { max_inodes: 100 }\n");
    let many = "i=0; while :; do i=$((i+1)); : > $i; done";
    let start =
        ["run", "--json", "--provider", "reduced", "--policy", &policy, "--", "sh", "-c", many];
    let json = crate::support::finish(super::words(&start), b"").json();
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
