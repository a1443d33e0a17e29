//! Many executions at once, and a pause of all of them.

use std::time::{Duration, Instant};

use stockade_provider::{ErrorKind, Execution, ProcessEnd, Program, chain};

use crate::programs::{end_of, python, sandbox_with, up};
use crate::support::{finished, runtime, sandbox, shell, walls_can_be_built};

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
                let program = Program::Command { argv };
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
