//! What an execution uses is counted for that execution.

use std::sync::Arc;
use std::time::Duration;

use stockade_policy::Limit;
use stockade_provider::{ExecutionUsage, ProcessEnd};
use stockade_testing::{is_root, not_run, skipped};

use crate::programs::{bash, end_of, python, sandbox_with, up};
use crate::support::{are_counted, runtime, shell, walls_can_be_built};

/// Only root always has a cgroup.
fn without_cgroup() {
    let reason = "no cgroup counts executions here";
    match is_root() {
        true => skipped("cgroup", reason),
        false => not_run(reason),
    }
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
            return without_cgroup();
        }
        let hungry = python("x = bytearray(400 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1");
        let hungry = sandbox.start(hungry).await.unwrap();
        let control = Arc::clone(&hungry.control);
        assert_eq!(end_of(hungry).await, ProcessEnd::Signaled { signal: 9 });
        assert_eq!(control.observe().await.oom_kills, 1);
        assert_eq!(other.control.observe().await.oom_kills, 0);
        // A later execution starts with counts of its own, and the sandbox keeps all.
        let small = sandbox.start(shell("true")).await.unwrap();
        let small_control = Arc::clone(&small.control);
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
            return without_cgroup();
        }
        let busy = "import time\nwhile time.process_time() < 0.3: pass";
        let busy = sandbox.start(python(busy)).await.unwrap();
        let many = "for i in $(seq 100); do sleep 0.2 2>/dev/null & done 2>/dev/null; wait";
        let many = sandbox.start(bash(many)).await.unwrap();
        let controls = [&busy, &many, &idle].map(|it| Arc::clone(&it.control));
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
