use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process_group};

use super::*;

const MEBIBYTE: u64 = 1 << 20;

/// No limit is exceeded, so shared pages count in every process.
const NO_BOUNDS: Bounds = Bounds { tasks: u64::MAX, memory_bytes: u64::MAX };

/// Creates a string of 50 MiB.
const FIFTY: &str = "x=$(head -c 52428800 /dev/zero | tr '\\0' x)";

/// A shell with a script, in a process group that is killed on drop.
struct Shell {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Shell {
    fn start(script: &str) -> Shell {
        let mut command = Command::new("sh");
        command.args(["-c", script]).process_group(0).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Shell { child, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let _ = self.child.wait();
    }
}

#[test]
fn only_descendants_of_the_first_process_are_counted() {
    let mut other = Shell::start("sleep 1000 & echo; wait");
    let mut shell = Shell::start("sleep 1000 & sleep 1000 & (sleep 1000 & echo; wait) & wait");
    other.line();
    shell.line();
    let found = measure(shell.pid(), NO_BOUNDS).unwrap();
    assert_eq!(found.tasks, 5);
    assert!(found.memory_bytes < 20 * MEBIBYTE, "{found:?}");
    assert!(found.cpu_time < Duration::from_secs(1), "{found:?}");
}

#[test]
fn measurement_stops_above_the_task_limit() {
    let script = "for i in 1 2 3 4 5 6 7 8 9; do sleep 1000 & done; echo; wait";
    let mut shell = Shell::start(script);
    shell.line();
    let found = measure(shell.pid(), Bounds { tasks: 3, ..NO_BOUNDS }).unwrap();
    assert_eq!(found.tasks, 4);
    assert_eq!(measure(shell.pid(), Bounds { tasks: 10, ..NO_BOUNDS }).unwrap().tasks, 10);
}

#[test]
fn threads_and_the_children_of_each_are_found() {
    let (to_test, from_thread) = mpsc::channel();
    let (to_thread, from_test) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        let shell = Shell::start("sleep 1000");
        to_test.send(shell.pid()).unwrap();
        let _ = from_test.recv();
    });
    let child = from_thread.recv().unwrap();
    let members = tree::walk(rustix::process::getpid(), u64::MAX).unwrap();
    assert!(members.iter().any(|member| member.pid == child));
    assert!(members[0].stat.threads >= 2, "{:?}", members[0]);
    drop(to_thread);
    thread.join().unwrap();
}

#[test]
fn memory_of_a_child_counts() {
    let mut shell = Shell::start(&format!("({FIFTY}; echo; sleep 1000; :) & wait"));
    shell.line();
    let found = measure(shell.pid(), NO_BOUNDS).unwrap().memory_bytes / MEBIBYTE;
    // A shell may keep a second copy of a long string.
    assert!((50..160).contains(&found), "{found} MiB");
}

#[test]
fn memory_that_forks_share_counts_once_above_the_limit() {
    let sleepers = "for i in 1 2 3 4 5; do (sleep 1000; :) & done";
    let mut shell = Shell::start(&format!("{FIFTY}; echo; {sleepers}; echo; wait"));
    shell.line();
    let alone = measure(shell.pid(), NO_BOUNDS).unwrap().memory_bytes;
    shell.line();
    let shared = measure(shell.pid(), NO_BOUNDS).unwrap().memory_bytes;
    assert!(shared > 5 * 50 * MEBIBYTE, "{} MiB", shared / MEBIBYTE);
    let bounds = Bounds { memory_bytes: alone + 20 * MEBIBYTE, ..NO_BOUNDS };
    let exact = measure(shell.pid(), bounds).unwrap().memory_bytes;
    assert!(exact >= 50 * MEBIBYTE && exact <= bounds.memory_bytes, "{} MiB", exact / MEBIBYTE);
}

/// Keeps a child between vfork and exec: before its exec it opens a FIFO that has no writer.
const VFORK: &str = r#"
import os, tempfile
memory = bytearray(b"x") * (50 << 20)
pipe = os.path.join(tempfile.mkdtemp(), "pipe")
os.mkfifo(pipe)
print(pipe, flush=True)
wait = [(os.POSIX_SPAWN_OPEN, 0, pipe, os.O_RDONLY, 0)]
os.posix_spawn("/bin/true", ["true"], {}, file_actions=wait)
"#;

#[test]
fn child_between_vfork_and_exec_does_not_count_twice() {
    let mut shell = Shell::start(&format!("exec python3 -c '{VFORK}' 2>/dev/null"));
    let pipe = shell.line();
    if pipe.is_empty() {
        let _ = writeln!(std::io::stderr(), "watchdog tests: skipped: no python3 that spawns");
        return;
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut double = measure(shell.pid(), NO_BOUNDS).unwrap();
    while double.tasks < 2 {
        assert!(Instant::now() < deadline, "no child: {double:?}");
        double = measure(shell.pid(), NO_BOUNDS).unwrap();
    }
    assert!(double.memory_bytes > 100 * MEBIBYTE, "{double:?}");
    let once = measure(shell.pid(), Bounds { memory_bytes: 90 * MEBIBYTE, ..NO_BOUNDS }).unwrap();
    assert!(once.memory_bytes > 50 * MEBIBYTE, "{once:?}");
    assert!(once.memory_bytes < 90 * MEBIBYTE, "{once:?}");
    let _ = std::fs::remove_file(&pipe);
    let _ = std::fs::remove_dir(std::path::Path::new(&pipe).parent().unwrap());
}

#[test]
fn cpu_time_of_a_grandchild_that_ended_counts_once() {
    let burn = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; times";
    let mut shell = Shell::start(&format!("(sh -c '{burn}'; :); echo; sleep 1000; :"));
    let own = shell.line();
    let burned: f64 = own.split_whitespace().map(seconds).sum();
    // The second line of times(1p), about children, and then the line that both have ended.
    shell.line();
    shell.line();
    let found = measure(shell.pid(), NO_BOUNDS).unwrap().cpu_time.as_secs_f64();
    assert!(burned > 0.05, "{own}");
    assert!(found > burned - 0.03 && found < burned * 1.5, "{found} s, burned {burned} s");
}

/// Parses a time such as `0m1.25s`.
fn seconds(text: &str) -> f64 {
    let (minutes, seconds) = text.trim_end_matches('s').split_once('m').unwrap();
    minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
}

#[test]
fn measuring_an_ended_sandbox_is_an_error() {
    let shell = Shell::start("exit");
    let pid = shell.pid();
    drop(shell);
    let error = measure(pid, NO_BOUNDS).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[test]
fn constantly_changing_tree_is_measured_without_error() {
    let mut shell = Shell::start("echo; while :; do sh -c 'sleep 0 & sleep 0'; done");
    shell.line();
    for _ in 0..200 {
        let found = measure(shell.pid(), Bounds { memory_bytes: 0, ..NO_BOUNDS }).unwrap();
        assert!((1..=4).contains(&found.tasks), "{found:?}");
    }
}
