//! Limits, through to what is said of each.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{
    Scratch, alone, binary, command, finish, outside, report, stockade, walls_can_be_built,
};

/// What the wall said of how precisely it holds a control.
fn precision<'r>(report: &'r Value, control: &str) -> &'r str {
    let controls = report["isolation"]["controls"].as_array().expect("a wall was built");
    let held = controls.iter().find(|held| held["control"] == control).expect("it is held");
    held["precision"].as_str().expect("a precision is a word")
}

fn hits(report: &Value, limit: &str) -> bool {
    report["limits_hit"].as_array().is_some_and(|hit| hit.iter().any(|key| key == limit))
}

#[test]
fn program_that_wants_more_memory_than_it_may_ends_for_it() {
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
    // Without a cgroup an rlimit refuses the allocation, or the watchdog sees it.
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
fn many_processes_together_have_no_more_memory_than_one() {
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
fn child_killed_for_memory_is_listed_while_its_parent_ends_well() {
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

/// The longest of the host's forks while something runs, and how many there were.
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
        let run = finish(command(&[&["--quiet", "--timeout", "3s", "--"], program].concat()), b"");
        assert_eq!(run.code, 124, "{}", run.stderr);
    };
    let bomb = "bomb() { bomb | bomb & }; bomb; while :; do :; done";
    let mut seen = Vec::new();
    // What else the machine does at the moment slows forks as well, and is measured before.
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
fn output_without_end_is_counted_and_takes_no_memory() {
    if !walls_can_be_built() {
        return;
    }
    let _quiet = alone();
    // The most memory of any process that Stockade waited for, and of its own.
    let measure = "import json, os, sys
read, write = os.pipe()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ,
    file_actions=[(os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_CLOSE, read)])
os.close(write)
with os.fdopen(read) as pipe:
    report = json.load(pipe)
_, status, usage = os.wait4(pid, 0)
del report['stdout']
print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_maxrss, report]))";
    let binary = binary();
    let words = [
        "python3".as_ref(),
        "-c".as_ref(),
        measure.as_ref(),
        binary.as_os_str(),
        "run".as_ref(),
        "--json".as_ref(),
        "--timeout".as_ref(),
        "2s".as_ref(),
        "--".as_ref(),
        "yes".as_ref(),
    ];
    let answer = outside(&words).json();
    let (code, kilobytes, report) = (&answer[0], answer[1].as_u64().unwrap(), &answer[2]);
    assert_eq!((code, &report["outcome"]), (&json!(124), &json!("timed_out")));
    let count = |key: &str| report["output"]["stdout"][key].as_u64().unwrap();
    assert_eq!(count("kept_bytes"), 1 << 20);
    assert!(count("dropped_bytes") > 1 << 20, "{report}");
    assert!(hits(report, "max_output_bytes"), "{report}");
    assert!(kilobytes < 64 << 10, "Stockade took {kilobytes} kB");
}

#[test]
fn kept_and_dropped_bytes_add_up_to_what_was_written() {
    if !walls_can_be_built() {
        return;
    }
    let program = "import sys
sys.stdout.buffer.write(b'o' * 3_000_000); sys.stdout.flush()
sys.stderr.buffer.write(b'e' * 2_000_000)";
    let (code, report) = report(&["--max-output", "2m", "--", "python3", "-c", program]);
    assert_eq!(code, 0, "{report}");
    let count = |stream: &str, key: &str| report["output"][stream][key].as_u64().unwrap();
    assert_eq!(count("stdout", "kept_bytes") + count("stdout", "dropped_bytes"), 3_000_000);
    assert_eq!(count("stderr", "kept_bytes") + count("stderr", "dropped_bytes"), 2_000_000);
    assert_eq!(count("stdout", "kept_bytes") + count("stderr", "kept_bytes"), 2 << 20);
    let kept = usize::try_from(count("stdout", "kept_bytes")).unwrap();
    assert_eq!(report["stdout"].as_str().unwrap(), "o".repeat(kept));
}

#[test]
fn full_disk_says_so_and_costs_the_host_nothing() {
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
    // Others use the disk too; the gibibytes of the program would be seen.
    assert!(before.saturating_sub(free()) < 64 << 20, "the host's disk shrank");
}

#[test]
fn disk_that_is_more_than_the_memory_is_refused_with_the_remedy() {
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
    assert_eq!(finish(control, b"").stdout, "all\n");
    let (code, report) = report(&["--pids", "20", "--", "python3", "-c", spawn]);
    assert_eq!((code, &report["stdout"]), (0, &json!("True 11\n")), "{report}");
    let held_by_cgroup = report["usage"]["tasks_peak"].is_u64();
    assert_eq!(hits(&report, "max_pids"), held_by_cgroup, "{report}");
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

#[test]
fn processor_time_that_is_used_up_ends_the_run() {
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
fn half_a_processor_is_half_of_the_time() {
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
