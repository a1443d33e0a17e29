//! State shared by all connections of one tool broker.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use stockade_policy::{Context, Control, Denial, Limit, Moment, Policy};
use stockade_record::{Sink, ToolCall};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinError;
use tokio::time::Instant;

use crate::broker::limits::CallLimits;
use crate::broker::observed::Observed;
use crate::listed::Listed;
use crate::tools::Tools;

/// The most bytes that all buffered long lines may take together.
const MOST_HELD: usize = 16 << 20;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) policy: Arc<Policy>,
    pub(super) tools: Tools,
    pub(super) limits: CallLimits,
    /// Permits for concurrent calls.
    pub(super) permits: Arc<Semaphore>,
    /// Permits for large requests held in memory.
    pub(super) large: Arc<Semaphore>,
    /// The permit for processing a large value.
    heavy: Arc<Semaphore>,
    /// The number of connections and calls being served.
    pub(super) serving: watch::Sender<usize>,
    /// The tools that are both allowed and offered, as shown to programs.
    pub(super) listing: String,
    context: Context,
    began: Instant,
    sink: Arc<dyn Sink>,
    numbers: AtomicU64,
    run: AtomicU64,
    observed: Mutex<Observed>,
    is_closed: watch::Sender<bool>,
}

impl Shared {
    pub(super) fn new(
        policy: Arc<Policy>,
        tools: Tools,
        context: Context,
        sink: Arc<dyn Sink>,
    ) -> Shared {
        let limits = CallLimits::of(&policy);
        let large = (MOST_HELD / limits.bounds.bytes.max(1)).clamp(1, 256);
        let listed = listed(&policy, &tools);
        Shared {
            permits: Arc::new(Semaphore::new(limits.most_at_once)),
            large: Arc::new(Semaphore::new(large)),
            heavy: Arc::new(Semaphore::new(1)),
            serving: watch::Sender::new(0),
            listing: serde_json::json!(listed).to_string(),
            began: Instant::now(),
            numbers: AtomicU64::new(0),
            run: AtomicU64::new(0),
            observed: Mutex::default(),
            is_closed: watch::Sender::new(false),
            policy,
            tools,
            limits,
            context,
            sink,
        }
    }

    /// Processes a large value on a blocking thread, so that the other tasks keep running. Only one
    /// at a time per broker: with one thread per large request, a sandbox could take most CPU time
    /// from the threads that serve all others.
    pub(super) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let turn = Arc::clone(&self.heavy).acquire_owned().await;
        let work = move || {
            // Held until the work ends, even if the caller has stopped waiting.
            let _turn = turn;
            work()
        };
        tokio::task::spawn_blocking(work).await
    }

    /// The number of a new call.
    pub(super) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Counts a call that is about to run; fails if the maximum is reached.
    pub(super) fn count(&self) -> Result<(), ()> {
        let most = self.limits.most_calls;
        let counted = self.run.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |run| {
            (run < most).then_some(run + 1)
        });
        counted.map(|_| ()).map_err(|_| ())
    }

    /// The context with the current time.
    pub(super) fn context(&self) -> Context {
        let mut context = self.context.clone();
        let passed = i64::try_from(self.began.elapsed().as_secs()).unwrap_or(i64::MAX);
        context.now =
            context.now.map(|now| Moment { unix_seconds: now.unix_seconds.saturating_add(passed) });
        context
    }

    pub(super) fn observed(&self) -> MutexGuard<'_, Observed> {
        // A panic while the lock is held leaves the value consistent: every change under this lock
        // is a single call.
        self.observed.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Notes that a limit was reached.
    pub(super) fn hit(&self, limit: Limit) {
        self.observed().limits_hit.insert(limit);
    }

    /// The denial of a call that exceeds a limit.
    pub(super) fn beyond(&self, limit: Limit, target: &str, why: String) -> Denial {
        self.hit(limit);
        let basis = self.policy.limits.basis(limit);
        Denial {
            control: Control::Limit(limit).as_str().into(),
            rule: basis.map_or_else(String::new, ToString::to_string),
            target: target.to_owned(),
            why,
            how_to_allow: format!("raise {}", limit.spec().path()),
        }
    }

    /// Records an event. If that fails, the broker closes and answers no further calls.
    pub(super) fn record(&self, event: ToolCall) -> bool {
        let mut observed = self.observed();
        observed.calls = observed.calls.saturating_add(1);
        if let Some(denial) = &event.denial {
            observed.note(denial);
        }
        drop(observed);
        let is_kept = self.sink.tool_call(event.bounded()).is_ok();
        if !is_kept {
            self.close();
        }
        is_kept
    }

    pub(super) fn close(&self) {
        self.is_closed.send_replace(true);
    }

    /// Resolves when the broker is closed.
    pub(super) async fn closed(&self) {
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.is_closed.subscribe().wait_for(|closed| *closed).await;
    }
}

/// The tools that the policy lists and the host offers.
pub(super) fn listed(policy: &Policy, tools: &Tools) -> Vec<Listed> {
    let named = policy.tools.value.iter();
    named.filter_map(|name| tools.get(&name.value)).map(|tool| (*tool.listed).clone()).collect()
}

/// Counts a connection or call as served until it is dropped.
#[derive(Debug)]
pub(super) struct Served {
    shared: Arc<Shared>,
}

impl Served {
    pub(super) fn new(shared: &Arc<Shared>) -> Served {
        shared.serving.send_modify(|serving| *serving += 1);
        Served { shared: Arc::clone(shared) }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.shared.serving.send_modify(|serving| *serving -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use stockade_record::{Egress, Unrecorded};
    use tokio::task::JoinSet;

    use super::*;

    #[derive(Debug)]
    struct NoRecord;

    impl Sink for NoRecord {
        fn egress(&self, _: Egress) -> Result<(), Unrecorded> {
            Ok(())
        }

        fn tool_call(&self, _: ToolCall) -> Result<(), Unrecorded> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn large_values_are_processed_one_at_a_time_per_sandbox() {
        let broker = || {
            let policy = Policy::parse_str("p", "{}", Path::new("/")).expect("a policy");
            let context = Context::default();
            Arc::new(Shared::new(Arc::new(policy), Tools::new(), context, Arc::new(NoRecord)))
        };
        let (one, other) = (broker(), broker());
        let [running, most] = [0; 2].map(|_| Arc::new(AtomicUsize::new(0)));
        let mut all = JoinSet::new();
        for _ in 0..20 {
            let (one, running, most) = (Arc::clone(&one), Arc::clone(&running), Arc::clone(&most));
            all.spawn(async move {
                let work = move || {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(5));
                    running.fetch_sub(1, Ordering::SeqCst);
                };
                one.work(work).await.expect("it does not panic");
            });
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        let waits = one.work(move || receiver.recv().expect("the other broker sends"));
        let sends = other.work(move || sender.send(()).expect("the first broker receives"));
        let (waited, sent) = tokio::join!(waits, sends);
        waited.and(sent).expect("the other broker works concurrently");
        while let Some(worked) = all.join_next().await {
            worked.expect("it does not panic");
        }
        assert_eq!(most.load(Ordering::SeqCst), 1);
    }
}
