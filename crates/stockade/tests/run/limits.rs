//! Limits, and how Stockade reports each.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{
    alone, binary, command, finish, hits, outside, report, stockade, walls_can_be_built,
};
use stockade_testing::Scratch;

/// Forks on the host while `act` runs; returns the longest fork time and the number of forks.
fn forks_during(act: impl FnOnce()) -> (Duration, u32) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let forks = scope.spawn(|| {
            let (mut worst, mut count) = (Duration::ZERO, 0);
            while !done.load(Ordering::Relaxed) {
                let began = Instant::now();
                let mut child = Command::new("/bin/true").spawn().expect("the host can fork");
                worst = worst.max(began.elapsed());
                child.wait().expect("the child can be waited for");
                count += 1;
            }
            (worst, count)
        });
        act();
        done.store(true, Ordering::Relaxed);
        forks.join().expect("forking does not panic")
    })
}

#[test]
fn fork_bomb_leaves_the_host_able_to_fork() {
    if !walls_can_be_built() {
        return;
    }
    let _quiet = alone();
    let timed_out = |program: &[&str]| {
        let run = finish(command(&[&["--quiet", "--timeout", "3s", "--"], program].concat()));
        assert_eq!(run.code, 124, "{}", run.stderr);
    };
    let bomb = "bomb() { bomb | bomb & }; bomb; while :; do :; done";
    let mut seen = Vec::new();
    // Other load on the machine slows forks too, so it is measured first.
    while seen.len() < 3 {
        let (usual, _) = forks_during(|| timed_out(&["sleep", "9"]));
        let (worst, count) = forks_during(|| timed_out(&["bash", "-c", bomb]));
        assert!(count > 50, "the host forked only {count} times");
        if worst < Duration::from_millis(50) + usual * 2 {
            return;
        }
        seen.push((worst, usual));
    }
    panic!("forks of the host took, with the bomb and without: {seen:?}");
}

#[test]
fn full_disk_is_reported_and_uses_no_disk_of_the_host() {
    if !walls_can_be_built() {
        return;
    }
    let fill = "import os, sys
for place in sys.argv[1:]:
    try:
        with open(place + '/fill', 'wb') as file:
            for _ in range(2048):
                file.write(b'x' * (1 << 20)); file.flush()
        print(place, 'wrote everything')
    except OSError as error:
        print(place, error.errno)
print(sum(os.path.getsize(place + '/fill') for place in sys.argv[1:]) >> 20)";
    let free = || rustix::fs::statvfs("/").map(|disk| disk.f_bfree * disk.f_frsize).unwrap();
    let _quiet = alone();
    let before = free();
    let words = ["--memory", "256m", "--disk", "64m", "--", "python3", "-c", fill];
    let (code, report) = report(&[&words[..], &["/workspace", "/tmp", "/dev/shm"]].concat());
    assert_eq!(code, 0, "{report}");
    let said = report["stdout"].as_str().unwrap();
    assert!(said.starts_with("/workspace 28\n/tmp 28\n/dev/shm 28\n"), "{said}");
    let written: u64 = said.lines().last().unwrap().parse().unwrap();
    assert!(written <= 64, "{written} MiB were written");
    assert!(hits(&report, "max_disk_mb"), "{report}");
    // Other processes use the disk too, but the gibibytes of the program would exceed this.
    assert!(before.saturating_sub(free()) < 64 << 20, "the host's disk shrank");
}

#[test]
fn disk_limit_above_the_memory_limit_is_refused_with_a_remedy() {
    if !walls_can_be_built() {
        return;
    }
    let run = stockade(&["--memory", "64m", "--disk", "512m", "--", "true"]);
    assert_eq!((run.code, run.stdout.as_str()), (125, ""));
    assert!(run.stderr.contains("--disk 512m is more than --memory 64m"), "{}", run.stderr);
    assert!(run.stderr.contains("raise --memory to at least 512m"), "{}", run.stderr);
}

/// Runs a program under a policy with one line of limits.
fn limited(limits: &str, program: &[&str]) -> (i32, Value) {
    let scratch = Scratch::new();
    let policy = scratch.file("policy.yaml", format!("limits: {{ {limits} }}\n"));
    report(&[&["--policy", policy.as_str(), "--"], program].concat())
}

#[test]
fn inodes_are_limited() {
    if !walls_can_be_built() {
        return;
    }
    let make = "import os, sys
for n in range(2000):
    try:
        open(f'{sys.argv[1]}/{n}', 'x').close()
    except OSError as error:
        print(error.errno); break
else:
    print('all')";
    let scratch = Scratch::new();
    assert_eq!(outside(&["python3", "-c", make, scratch.text()]).text(), "all\n");
    let (code, report) = limited("max_inodes: 500", &["python3", "-c", make, "/tmp"]);
    assert_eq!((code, &report["stdout"]), (0, &json!("28\n")), "{report}");
    assert!(hits(&report, "max_inodes"), "{report}");
}

#[test]
fn processes_and_threads_are_limited() {
    if !walls_can_be_built() {
        return;
    }
    let spawn = "import os, sys, time
for n in range(100):
    try:
        if os.fork() == 0:
            time.sleep(20); os._exit(0)
    except OSError as error:
        print(n < 20, error.errno); break
else:
    print('all')
sys.stdout.flush()
os.killpg(0, 9) if len(sys.argv) > 1 else None";
    let mut control = Command::new("setsid");
    control.args(["--wait", "python3", "-c", spawn, "end"]);
    assert_eq!(finish(control).stdout, "all\n");
    let (code, report) = report(&["--pids", "20", "--", "python3", "-c", spawn]);
    assert_eq!((code, &report["stdout"]), (0, &json!("True 11\n")), "{report}");
    let controls = report["isolation"]["controls"].as_array().expect("the report lists controls");
    let pids = controls.iter().find(|it| it["control"] == "max_pids").expect("it is always asked");
    // An rlimit counts no refusals; the report lists it only if a poll saw the limit reached.
    let is_counted = pids["mechanism"].to_string().contains("cgroup");
    assert!(hits(&report, "max_pids") || !is_counted, "{report}");
}

#[test]
fn open_files_are_limited() {
    if !walls_can_be_built() {
        return;
    }
    let open = "kept = []
try:
    while len(kept) < 200: kept.append(open('/dev/null'))
    print('all')
except OSError as error:
    print(error.errno)";
    assert_eq!(outside(&["python3", "-c", open]).text(), "all\n");
    let (code, report) = limited("max_open_files: 64", &["python3", "-c", open]);
    assert_eq!((code, &report["stdout"]), (0, &json!("24\n")), "{report}");
}

/// Small machines set a lower RLIMIT_SIGPENDING than the wall does.
#[test]
fn lower_rlimit_of_the_caller_is_kept() {
    if !walls_can_be_built() {
        return;
    }
    let signals = "import resource; print(*resource.getrlimit(resource.RLIMIT_SIGPENDING))";
    let run = |bound: &str| {
        let mut prlimit = Command::new("prlimit");
        prlimit.arg(format!("--sigpending={bound}:{bound}")).arg(binary());
        prlimit.args(["run", "--", "python3", "-c", signals]);
        finish(prlimit)
    };
    assert_eq!(run("100").text(), "100 100\n");
    let had = outside(&["python3", "-c", signals]);
    let had: u64 = had.text().split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("one");
    let own = had.min(4096);
    assert_eq!(run(&had.to_string()).text(), format!("{own} {own}\n"));
}

#[test]
fn used_up_cpu_time_ends_the_run() {
    if !walls_can_be_built() {
        return;
    }
    let busy = ["sh", "-c", "(while :; do :; done) & while :; do :; done"];
    let (code, report) = limited("max_cpu_seconds: 0.5", &busy);
    assert_eq!((code, &report["outcome"]), (122, &json!("limit_exceeded")), "{report}");
    assert_eq!(report["limit"], "max_cpu_seconds");
    assert!(report["duration_ms"].as_u64().unwrap() < 5000, "{report}");
}

#[test]
fn half_a_cpu_gives_half_of_the_cpu_time() {
    if !walls_can_be_built() {
        return;
    }
    let spin = "import time
end = time.monotonic() + 2
while time.monotonic() < end: pass
print(time.process_time())";
    let _quiet = alone();
    let (code, report) = report(&["--cpus", "0.5", "--", "python3", "-c", spin]);
    assert_eq!(code, 0, "{report}");
    let used: f64 = report["stdout"].as_str().unwrap().trim().parse().unwrap();
    assert!((0.3..1.35).contains(&used), "{used} s of 2 s");
    if let Some(counted) = report["usage"]["cpu_ms"].as_u64() {
        assert!((400..1450).contains(&counted), "{counted} ms of 2 s");
    }
}
