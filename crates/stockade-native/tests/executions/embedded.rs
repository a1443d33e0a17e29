//! A process that uses walls stays responsive: sandboxes do not block the async runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stockade_native::NativeProvider;
use stockade_provider::{ProcessEnd, Provider, SandboxRequest, chain};

use crate::support::{finished, native, request, runtime, shell, walls_can_be_built};

/// How much later a timer of the runtime may be than a plain thread's. It is late if a thread of
/// the runtime waits for a file system, for a process, or for a sandbox to be released.
const MOST_LATE: Duration = Duration::from_millis(100);

/// Other work on the machine can make one round late. Code that blocks a thread makes every round
/// late.
const ROUNDS: u32 = 3;

const TICK: Duration = Duration::from_millis(10);

/// One sandbox, ended in one of the three ways.
async fn one(provider: Arc<NativeProvider>, request: Arc<SandboxRequest>, number: u32) {
    let sandbox = provider.create(&request).await;
    let sandbox = sandbox.unwrap_or_else(|error| panic!("{}", chain(&error)));
    let running = sandbox.start(shell("echo ran; sleep 0.2")).await.unwrap();
    let (text, end) = finished(running).await;
    assert_eq!((text.as_str(), end.unwrap()), ("ran\n", ProcessEnd::Exited { code: 0 }));
    match number % 3 {
        0 => drop(sandbox),
        1 => sandbox.end().await.unwrap(),
        _ => sandbox.kill().await,
    }
}

/// How much later a timer of the runtime was than one of a plain thread.
fn lateness() -> Duration {
    let runtime = runtime();
    let is_done = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_done);
    let timer = runtime.spawn(async move {
        let mut latest = Duration::ZERO;
        while !seen.load(Ordering::Relaxed) {
            let due = Instant::now() + TICK;
            tokio::time::sleep_until(due.into()).await;
            latest = latest.max(due.elapsed());
        }
        latest
    });
    let seen = Arc::clone(&is_done);
    let machine = std::thread::spawn(move || {
        let mut latest = Duration::ZERO;
        while !seen.load(Ordering::Relaxed) {
            let due = Instant::now() + TICK;
            std::thread::sleep(TICK);
            latest = latest.max(due.elapsed());
        }
        latest
    });
    let (provider, request) = (Arc::new(native()), Arc::new(request()));
    runtime.block_on(async {
        let start = |number| one(Arc::clone(&provider), Arc::clone(&request), number);
        let all: Vec<_> = (0..100).map(|number| tokio::spawn(start(number))).collect();
        for one in all {
            one.await.unwrap();
        }
    });
    is_done.store(true, Ordering::Relaxed);
    let latest = runtime.block_on(timer).unwrap();
    latest.saturating_sub(machine.join().unwrap())
}

#[test]
fn timer_of_10_ms_is_never_100_ms_late_among_100_sandboxes_on_two_threads() {
    if !walls_can_be_built() {
        return;
    }
    let mut rounds = Vec::new();
    while rounds.last().is_none_or(|late| *late >= MOST_LATE) {
        assert!(rounds.len() < ROUNDS as usize, "the timer was late by {rounds:?}");
        rounds.push(lateness());
    }
}
