//! Unusual ends of a run: slow readers, closed readers, and a first process that is killed.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use stockade_sys::ends_within;

use crate::support::{
    Conversation, binary, command, finish, is_root, not_run, processes, stockade,
    walls_can_be_built, within,
};

const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn slow_reader_gets_all_output_and_causes_no_timeout() {
    if !walls_can_be_built() {
        return;
    }
    let words =
        ["--quiet", "--timeout", "1s", "--", "sh", "-c", "head -c 900000 /dev/zero; exit 3"];
    let mut child = command(&words).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    // Sleeps past the timeout: the test needs a reader that is late.
    std::thread::sleep(Duration::from_secs(2));
    let mut output = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut output).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3), "after {:?}", began.elapsed());
    assert_eq!(output.len(), 900_000);
}

#[test]
fn reader_that_never_reads_does_not_keep_the_sandbox_alive() {
    if !walls_can_be_built() {
        return;
    }
    let script = "head -c 900000 /dev/zero; exit 3";
    let mut child = command(&["--quiet", "--", "sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    assert!(within(PATIENCE, || !children(pid).is_empty()), "there is a launcher");
    assert!(within(PATIENCE, || children(pid).is_empty()), "a launcher stays");
    assert!(child.try_wait().unwrap().is_none(), "Stockade does not wait for its reader");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(ends_within(&child, PATIENCE).unwrap(), "it cannot be cancelled");
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

#[test]
fn exit_code_is_kept_when_the_reader_closes_its_end() {
    if !walls_can_be_built() {
        return;
    }
    let script = "yes | head -c 10000000; exit 3";
    let mut run = Conversation::start(command(&["--quiet", "--", "sh", "-c", script]));
    assert_eq!(run.hear(), "y");
    drop(run.0.stdout.take());
    assert_eq!(run.0.wait().unwrap().code(), Some(3));
}

#[test]
fn unread_stderr_delays_neither_the_end_of_the_sandbox_nor_the_exit() {
    if !walls_can_be_built() {
        return;
    }
    let words = ["--timeout", "1s", "--max-output", "64m", "--", "sh", "-c", "yes 98731 >&2"];
    let mut child = command(&words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let ended = ends_within(&child, PATIENCE).unwrap();
    let left = processes().iter().any(|line| line.starts_with("yes 98731"));
    // Cleans up before the assertions, so that a failed test leaves no process.
    let _ = child.kill();
    let status = child.wait().unwrap();
    assert!(!left, "a program is left");
    assert!(ended, "Stockade waits to be heard");
    assert_eq!(status.code(), Some(124));
}

#[test]
fn unread_report_can_be_interrupted() {
    if !walls_can_be_built() {
        return;
    }
    // The caller of the tests may ignore a signal, which child processes inherit.
    let mut stockade = Command::new("env");
    stockade.arg("--default-signal").arg(binary());
    stockade.args(["run", "--json", "--", "head", "-c", "300000", "/dev/zero"]);
    let mut child = stockade.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    assert!(within(PATIENCE, || !children(child.id()).is_empty()), "there is a launcher");
    assert!(within(PATIENCE, || children(child.id()).is_empty()), "a launcher stays");
    assert!(child.try_wait().unwrap().is_none(), "Stockade does not wait for its reader");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = ends_within(&child, PATIENCE).unwrap();
    let _ = child.kill();
    child.wait().unwrap();
    assert!(ended, "it waits for ever");
}

#[test]
fn background_job_does_not_read_the_terminal_and_is_not_stopped() {
    if !walls_can_be_built() {
        return;
    }
    // The session leader of a new terminal starts a background job.
    let job = "import os, pty, signal, sys
pid, terminal = pty.fork()
if pid == 0:
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        os.execv(sys.argv[1], sys.argv[1:])
    _, status = os.waitpid(job, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        os.kill(job, signal.SIGKILL)
        os._exit(99)
    os._exit(os.waitstatus_to_exitcode(status))
try:
    while os.read(terminal, 4096): pass
except OSError:
    pass
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))";
    let run = |words: &[&str]| {
        let mut python = Command::new("python3");
        python.args(["-c", job]).args(words);
        finish(python).stdout
    };
    assert_eq!(run(&["/bin/cat"]), "99\n", "a terminal stops a job that reads it");
    let binary = binary();
    let stockade = binary.to_str().unwrap();
    assert_eq!(run(&[stockade, "run", "--timeout", "5s", "--", "cat"]), "0\n");
}

#[test]
fn main_process_killed_for_memory_is_reported_once() {
    if !walls_can_be_built() {
        return;
    }
    let greedy = "b = bytearray(b'x') * 10**9";
    let run = stockade(&["--memory", "64m", "--", "python3", "-c", greedy]);
    if run.code != 137 {
        // Without a cgroup an rlimit refuses the allocation, or the watchdog ends the run.
        return not_run("no cgroup holds memory");
    }
    assert_eq!(run.messages(), "stockade: out of memory (limit defaults.max_memory_mb: 64 MiB)\n");
}

#[test]
fn first_process_killed_for_memory_is_reported_as_out_of_memory_with_usage() {
    if !walls_can_be_built() {
        return;
    }
    if !is_root() {
        return not_run("only root makes the kernel choose the first process");
    }
    let greedy = "input()
with open('/tmp/file', 'wb') as file:
    for _ in range(64): file.write(bytes(1 << 20))";
    for _ in 0..5 {
        let mut run = Conversation::start(command(&[
            "--json", "--memory", "64m", "--disk", "64m", "--", "python3", "-c", greedy,
        ]));
        let launcher = || children(run.0.id()).into_iter().next();
        let first = || launcher().and_then(|pid| children(pid).into_iter().next());
        let program = || first().and_then(|pid| children(pid).into_iter().next());
        assert!(within(PATIENCE, || program().is_some()), "the program runs");
        // File pages belong to no process, so oom_score_adj decides which process is killed.
        let first = first().unwrap();
        std::fs::write(format!("/proc/{first}/oom_score_adj"), "1000").unwrap();
        run.say("go");
        let mut text = String::new();
        run.0.stdout.as_mut().unwrap().read_to_string(&mut text).unwrap();
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["outcome"], "out_of_memory", "{report}");
        assert_eq!(report["limits_hit"], json!([]), "{report}");
        assert!(report["usage"]["memory_peak_bytes"].as_u64().unwrap() > 32 << 20, "{report}");
        assert_eq!(run.end(), 137);
    }
}

/// The direct children of a process, without zombies.
fn children(parent: u32) -> Vec<u32> {
    let stat = |entry: std::fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let (state, above) = (fields.next()?, fields.next()?.parse::<u32>().ok()?);
        (above == parent && state != "Z").then_some(pid)
    };
    let entries = std::fs::read_dir("/proc").expect("processes can be listed");
    entries.flatten().filter_map(stat).collect()
}
