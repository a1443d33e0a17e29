//! Each execution can be ended, measured and stopped without touching the others.

use std::time::{Duration, Instant};

use stockade_policy::Limit;
use stockade_provider::{
    Entry, ErrorKind, Execution, ExecutionUsage, ProcessEnd, Provider, Running, Sandbox,
    SandboxRequest, chain,
};
use stockade_testing::skipped;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{are_counted, finished, native, runtime, sandbox, shell, walls_can_be_built};

/// Programs that hide from a kill of their process group. Each prints `up` when it has hidden a
/// process named `hidden`, and then runs on itself.
const HIDING: [(&str, &str); 4] = [
    ("double fork", "( (exec -a hidden sleep 1000) & ) ; echo up; sleep 1000"),
    ("new session", "setsid bash -c 'exec -a hidden sleep 1000' & echo up; sleep 1000"),
    (
        "double fork in a new session, not dumpable",
        "setsid bash -c '(python3 -I -S -c \"
import ctypes, os
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
os.execv(\\\"/bin/bash\\\", [\\\"bash\\\", \\\"-c\\\", \\\"exec -a hidden sleep 1000\\\"])
\" &)' ; echo up; sleep 1000",
    ),
    (
        "ignored signals",
        "trap '' TERM HUP INT; (setsid bash -c 'exec -a hidden sleep 1000' &); echo up; sleep 1000",
    ),
];

/// Forks without pause; every process starts a session of its own.
const FORKING: &str = "
import os, sys
print('up', flush=True)
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        pass
";

fn bash(script: &str) -> Execution {
    let argv = ["bash", "-c", script].map(str::to_owned).to_vec();
    Execution::new(stockade_provider::Program::Command { argv })
}

fn python(script: &str) -> Execution {
    let argv = ["python3", "-I", "-S", "-c", script].map(str::to_owned).to_vec();
    Execution::new(stockade_provider::Program::Command { argv })
}

async fn sandbox_with(policy: &str) -> Box<dyn Sandbox> {
    let entry = Entry::Program("sh".to_owned());
    let asked = SandboxRequest { entry, ..stockade_testing::sandbox::request(policy, None) };
    let sandbox = native().create(&asked).await;
    sandbox.unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// Starts a program and waits until it has printed `up`.
async fn up(sandbox: &dyn Sandbox, execution: Execution) -> Running {
    let mut running = sandbox.start(execution).await.unwrap();
    let mut line = [0; 3];
    running.stdout.read_exact(&mut line).await.expect("it prints that it is up");
    assert_eq!(&line, b"up\n");
    running
}

/// The names of all processes inside, as a program inside sees them.
async fn inside(sandbox: &dyn Sandbox) -> String {
    let list = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done";
    finished(sandbox.start(shell(list)).await.unwrap()).await.0
}

async fn has_hidden(sandbox: &dyn Sandbox) -> bool {
    inside(sandbox).await.lines().any(|line| line.starts_with("hidden "))
}

async fn end_of(running: Running) -> ProcessEnd {
    let ended = tokio::time::timeout(Duration::from_secs(20), running.end).await;
    ended.expect("it ends").unwrap()
}

#[test]
fn killed_execution_takes_every_hidden_process_with_it_and_no_other_execution() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        for (how, script) in HIDING {
            let sandbox = sandbox_with("{}").await;
            let mut other = up(&*sandbox, shell("echo up; exec cat")).await;
            let hiding = up(&*sandbox, bash(script)).await;
            while !has_hidden(&*sandbox).await {}
            hiding.control.kill().await.unwrap();
            assert_eq!(end_of(hiding).await, ProcessEnd::Signaled { signal: 9 }, "{how}");
            assert!(!has_hidden(&*sandbox).await, "{how}");
            other.stdin.write_all(b"on").await.unwrap();
            other.stdin.shutdown().await.unwrap();
            let (text, end) = finished(other).await;
            assert_eq!((&*text, end.unwrap()), ("on", ProcessEnd::Exited { code: 0 }), "{how}");
            sandbox.end().await.unwrap();
        }
    });
}

#[test]
fn execution_that_ends_takes_its_background_processes_with_it() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let sandbox = sandbox().await;
        let other = up(&*sandbox, shell("echo up; exec cat")).await;
        let script = "setsid bash -c 'exec -a hidden sleep 1000' > /dev/null 2>&1 & \
                      until grep -qs hidden /proc/[0-9]*/cmdline; do :; done; echo seen";
        let (text, end) = finished(sandbox.start(bash(script)).await.unwrap()).await;
        assert_eq!((&*text, end.unwrap()), ("seen\n", ProcessEnd::Exited { code: 0 }));
        assert!(!has_hidden(&*sandbox).await);
        other.control.kill().await.unwrap();
        end_of(other).await;
    });
}

#[test]
fn execution_that_forks_while_it_is_killed_is_gone_and_the_others_go_on() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let sandbox = sandbox_with("{limits: {max_pids: 200}}").await;
        let other = up(&*sandbox, shell("echo up; exec cat")).await;
        for _ in 0..3 {
            let forking = up(&*sandbox, python(FORKING)).await;
            let began = Instant::now();
            forking.control.kill().await.unwrap();
            assert_eq!(end_of(forking).await, ProcessEnd::Signaled { signal: 9 });
            assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
            assert!(!inside(&*sandbox).await.contains("os.fork"));
        }
        other.control.kill().await.unwrap();
        end_of(other).await;
    });
}

#[test]
fn timeout_ends_one_execution_and_keeps_files_and_other_executions() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let sandbox = sandbox().await;
        let other = up(&*sandbox, shell("echo up; exec cat")).await;
        let late = Execution {
            timeout: Some(Duration::from_millis(300)),
            ..bash("echo kept > /workspace/file; (setsid bash -c 'exec -a hidden sleep 1000' &); sleep 1000")
        };
        let end = end_of(sandbox.start(late).await.unwrap()).await;
        assert_eq!(end, ProcessEnd::LimitExceeded { limit: Limit::Timeout });
        assert!(!has_hidden(&*sandbox).await);
        let kept = finished(sandbox.start(shell("cat /workspace/file")).await.unwrap()).await;
        assert_eq!(kept.0, "kept\n");
        other.control.signal(15).await.unwrap();
        assert_eq!(end_of(other).await, ProcessEnd::Signaled { signal: 15 });
    });
}

#[test]
fn memory_that_runs_out_is_counted_for_the_execution_that_used_it() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let sandbox = sandbox_with("{defaults: {max_memory_mb: 128}}").await;
        let other = up(&*sandbox, shell("echo up; exec cat")).await;
        if !are_counted(&*sandbox).await {
            return skipped("cgroup", "no cgroup counts executions here");
        }
        let hungry = python("x = bytearray(400 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1");
        let hungry = sandbox.start(hungry).await.unwrap();
        let control = std::sync::Arc::clone(&hungry.control);
        assert_eq!(end_of(hungry).await, ProcessEnd::Signaled { signal: 9 });
        assert_eq!(control.observe().await.oom_kills, 1);
        assert_eq!(other.control.observe().await.oom_kills, 0);
        // A later execution starts with counts of its own, and the sandbox keeps all.
        let small = sandbox.start(shell("true")).await.unwrap();
        let small_control = std::sync::Arc::clone(&small.control);
        assert_eq!(end_of(small).await, ProcessEnd::Exited { code: 0 });
        let small = small_control.observe().await;
        assert_eq!(small.oom_kills, 0);
        assert!(small.memory_peak_bytes.unwrap() < 64 << 20, "{small:?}");
        let hungry = control.observe().await;
        assert!(hungry.memory_peak_bytes.unwrap() > 64 << 20, "{hungry:?}");
        assert_eq!(sandbox.observe().await.oom_kills, 1);
        other.control.kill().await.unwrap();
        assert_eq!(end_of(other).await, ProcessEnd::Signaled { signal: 9 });
    });
}

#[test]
fn usage_is_counted_for_each_execution() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let sandbox = sandbox_with("{limits: {max_pids: 40}}").await;
        let idle = up(&*sandbox, shell("echo up; exec cat")).await;
        if !are_counted(&*sandbox).await {
            return skipped("cgroup", "no cgroup counts executions here");
        }
        let busy = "import time\nwhile time.process_time() < 0.3: pass";
        let busy = sandbox.start(python(busy)).await.unwrap();
        let many = "for i in $(seq 100); do sleep 0.2 2>/dev/null & done 2>/dev/null; wait";
        let many = sandbox.start(bash(many)).await.unwrap();
        let controls = [&busy, &many, &idle].map(|it| std::sync::Arc::clone(&it.control));
        end_of(busy).await;
        end_of(many).await;
        let [busy, many, idle_used] = {
            let mut used = controls.iter().map(|control| control.observe());
            let (a, b, c) = (used.next().unwrap(), used.next().unwrap(), used.next().unwrap());
            tokio::join!(a, b, c).into()
        };
        let cpu = |used: &ExecutionUsage| used.cpu_time.unwrap();
        assert!(cpu(&busy) >= Duration::from_millis(300), "{busy:?}");
        assert!(cpu(&idle_used) < Duration::from_millis(200), "{idle_used:?}");
        if let Some(most) = many.tasks_peak {
            assert!(most > 20, "{many:?}");
            assert!(busy.tasks_peak < Some(5), "{busy:?}");
            assert!(many.limits_hit.contains(&Limit::Pids), "{many:?}");
            assert!(busy.limits_hit.is_empty() && idle_used.limits_hit.is_empty());
        }
        idle.control.kill().await.unwrap();
        end_of(idle).await;
    });
}

#[test]
fn paused_program_does_not_run_and_nothing_starts_until_it_is_resumed() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let sandbox = sandbox().await;
        // A timer wakes a program that only SIGSTOP stopped.
        let counting = "
import signal, time
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
print('up', flush=True)
while True:
    open('/workspace/count', 'a').write('.')
";
        let counting = up(&*sandbox, python(counting)).await;
        sandbox.pause().await.unwrap();
        let refused = sandbox.start(shell("true")).await.err().expect("nothing starts");
        assert_eq!(refused.kind(), ErrorKind::Busy);
        assert!(refused.remedy().is_some_and(|remedy| remedy.contains("resume")));
        let used = || async { counting.control.observe().await.cpu_time };
        if used().await.is_some() {
            // A process in a system call stops a little later.
            let began = Instant::now();
            loop {
                let before = used().await;
                tokio::time::sleep(Duration::from_millis(200)).await;
                if used().await == before {
                    break;
                }
                assert!(began.elapsed() < Duration::from_secs(5), "it goes on");
            }
        }
        sandbox.resume().await.unwrap();
        let size = || async {
            let size = sandbox.start(shell("stat -c %s /workspace/count")).await.unwrap();
            finished(size).await.0.trim().parse::<u64>().unwrap()
        };
        let (began, first) = (Instant::now(), size().await);
        while size().await == first {
            assert!(began.elapsed() < Duration::from_secs(10), "it does not go on");
        }
        // One that is paused can be killed, and so can its sandbox.
        sandbox.pause().await.unwrap();
        counting.control.kill().await.unwrap();
        assert_eq!(end_of(counting).await, ProcessEnd::Signaled { signal: 9 });
        sandbox.resume().await.unwrap();
        let last = up(&*sandbox, shell("echo up; exec cat")).await;
        sandbox.pause().await.unwrap();
        sandbox.end().await.unwrap();
        assert!(last.end.await.is_ok());
    });
}

#[test]
fn fifty_executions_at_once_with_ten_megabytes_each_come_back_right() {
    const BYTES: usize = 10_000_000;
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let sandbox = sandbox_with("{limits: {max_pids: 400}}").await;
        let mut all = Vec::new();
        for number in 0..50 {
            let script = format!("yes {number:09} | head -c {BYTES}");
            let running = sandbox.start(shell(&script)).await.unwrap();
            all.push(tokio::spawn(async move {
                let (text, end) = finished(running).await;
                assert_eq!(end.unwrap(), ProcessEnd::Exited { code: 0 });
                let line = format!("{number:09}\n");
                assert_eq!(text.len(), BYTES);
                assert!(text.as_bytes().chunks(10).all(|it| it == line.as_bytes()));
            }));
        }
        for one in all {
            one.await.unwrap();
        }
    });
}

#[test]
fn execution_beyond_the_maximum_is_refused_by_name() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let sandbox = sandbox_with("{limits: {max_pids: 400}}").await;
        let mut all = Vec::new();
        for _ in 0..64 {
            all.push(sandbox.start(shell("exec cat")).await.unwrap());
        }
        for _ in 0..3 {
            let refused = sandbox.start(shell("true")).await.err().expect("it is one too many");
            assert_eq!(refused.kind(), ErrorKind::Busy);
            assert!(chain(&refused).contains("at most 64"), "{}", chain(&refused));
        }
        let first = all.remove(0);
        first.control.kill().await.unwrap();
        end_of(first).await;
        assert_eq!(finished(sandbox.start(shell("echo on")).await.unwrap()).await.0, "on\n");
    });
}

/// Prints how long a program takes in an open sandbox, for comparison with other versions.
#[test]
#[ignore = "prints a time"]
fn time_of_one_program() {
    runtime().block_on(async {
        let sandbox = sandbox().await;
        for pause in [0, 300] {
            let mut times = Vec::new();
            for _ in 0..40 {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                let argv = vec!["/bin/true".to_owned()];
                let program = stockade_provider::Program::Command { argv };
                let began = Instant::now();
                let running = sandbox.start(Execution::new(program)).await.unwrap();
                finished(running).await.1.unwrap();
                times.push(began.elapsed());
            }
            times.sort();
            eprintln!("{pause} ms apart: median {:?}, slowest {:?}", times[20], times[39]);
        }
    });
}
