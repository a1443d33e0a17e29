//! Ending one execution ends all its processes, whatever they do, and no other execution.

use std::time::{Duration, Instant};

use stockade_policy::Limit;
use stockade_provider::{Execution, ProcessEnd};
use tokio::io::AsyncWriteExt;

use crate::programs::{bash, end_of, has_hidden, inside, python, sandbox_with, up};
use crate::support::{finished, runtime, sandbox, shell, walls_can_be_built};

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

/// Which of two programs starts first: without cgroups the guest treats them differently.
#[derive(Clone, Copy)]
enum Order {
    First,
    Second,
}

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

#[test]
fn killed_execution_takes_every_hidden_process_with_it_and_no_other_execution() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let each = |hiding| HIDING.map(|(how, script)| (how, script, hiding));
        for (how, script, order) in [each(Order::First), each(Order::Second)].concat() {
            let sandbox = sandbox_with("{}").await;
            let other = || up(&*sandbox, shell("echo up; exec cat"));
            let (mut other, hiding) = match order {
                Order::First => {
                    let hiding = up(&*sandbox, bash(script)).await;
                    (other().await, hiding)
                }
                Order::Second => (other().await, up(&*sandbox, bash(script)).await),
            };
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
fn program_that_kills_every_process_it_sees_does_not_outlive_its_execution() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let sandbox = sandbox().await;
        let first = up(&*sandbox, shell("echo up; exec cat")).await;
        // Without cgroups this kills the process that holds its execution together.
        let killing = "(setsid bash -c 'exec -a hidden sleep 1000' &) ; echo up; \
                       for p in /proc/[0-9]*; do p=${p#/proc/}; \
                       [ $p -gt 1 ] && [ $p -lt $$ ] && kill -9 $p; done; exec sleep 1000";
        let killing = up(&*sandbox, bash(killing)).await;
        assert_eq!(end_of(first).await, ProcessEnd::Signaled { signal: 9 });
        killing.control.kill().await.unwrap();
        assert_eq!(end_of(killing).await, ProcessEnd::Signaled { signal: 9 });
        assert!(!has_hidden(&*sandbox).await);
    });
}
