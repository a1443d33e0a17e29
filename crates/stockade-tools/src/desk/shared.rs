//! What all connections of one desk share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use stockade_policy::{Context, Control, Denial, Limit, Moment, Policy};
use stockade_record::{Sink, ToolCall};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinError;
use tokio::time::Instant;

use crate::desk::limits::CallLimits;
use crate::desk::observed::Observed;
use crate::listed::Listed;
use crate::tools::Tools;

/// What all lines that are kept at once may take, in bytes, beyond the first part of each.
const MOST_HELD: usize = 16 << 20;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) policy: Arc<Policy>,
    pub(super) tools: Tools,
    pub(super) limits: CallLimits,
    /// Calls that may run at once.
    pub(super) places: Arc<Semaphore>,
    /// Large requests that may be held at once.
    pub(super) large: Arc<Semaphore>,
    /// Large values that may be worked on at once.
    heavy: Arc<Semaphore>,
    /// How many connections and calls are being served.
    pub(super) serving: watch::Sender<usize>,
    /// The tools that are both listed and offered, as they are shown.
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
            places: Arc::new(Semaphore::new(limits.most_at_once)),
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

    /// Works on a large value, on a thread that may block so that it does not hold up everybody
    /// else. One at a time for each desk: to the kernel a thread is a thread, and were there one
    /// for each large request of a sandbox, those that serve all the others would hardly run.
    pub(super) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let turn = Arc::clone(&self.heavy).acquire_owned().await;
        let work = move || {
            // Kept to the end of the work, also where nobody waits for it any more.
            let _turn = turn;
            work()
        };
        tokio::task::spawn_blocking(work).await
    }

    /// The number of a new call.
    pub(super) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Counts a call that is to run, unless there were as many as may be.
    pub(super) fn count(&self) -> Result<(), ()> {
        let most = self.limits.most_calls;
        let counted = self.run.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |run| {
            (run < most).then_some(run + 1)
        });
        counted.map(|_| ()).map_err(|_| ())
    }

    /// The context with the clock of this moment.
    pub(super) fn context(&self) -> Context {
        let mut context = self.context.clone();
        let passed = i64::try_from(self.began.elapsed().as_secs()).unwrap_or(i64::MAX);
        context.now =
            context.now.map(|now| Moment { unix_seconds: now.unix_seconds.saturating_add(passed) });
        context
    }

    pub(super) fn observed(&self) -> MutexGuard<'_, Observed> {
        // What a panicking holder left is whole: every change under this lock is a single call.
        self.observed.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Notes that a limit was met.
    pub(super) fn hit(&self, limit: Limit) {
        self.observed().limits_hit.insert(limit);
    }

    /// The refusal of a call that is beyond a limit.
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

    /// Keeps an event. Where that fails no call is answered any more.
    pub(super) fn tell(&self, event: ToolCall) -> bool {
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

    /// Ends when the desk is closed.
    pub(super) async fn closed(&self) {
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.is_closed.subscribe().wait_for(|closed| *closed).await;
    }
}

/// The tools that the policy names and somebody offers.
pub(super) fn listed(policy: &Policy, tools: &Tools) -> Vec<Listed> {
    let named = policy.tools.value.iter();
    named.filter_map(|name| tools.get(&name.value)).map(|tool| (*tool.listed).clone()).collect()
}

/// Something that is being served, up to its end or until it is cut off.
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
    struct Nobody;

    impl Sink for Nobody {
        fn egress(&self, _: Egress) -> Result<(), Unrecorded> {
            Ok(())
        }

        fn tool_call(&self, _: ToolCall) -> Result<(), Unrecorded> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn large_values_of_a_sandbox_are_worked_on_one_at_a_time_and_those_of_another_beside() {
        let desk = || {
            let policy = Policy::parse_str("p", "{}", Path::new("/")).expect("a policy");
            let context = Context::default();
            Arc::new(Shared::new(Arc::new(policy), Tools::new(), context, Arc::new(Nobody)))
        };
        let (one, other) = (desk(), desk());
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
        let waits = one.work(move || receiver.recv().expect("somebody tells"));
        let tells = other.work(move || sender.send(()).expect("somebody waits"));
        let (waited, told) = tokio::join!(waits, tells);
        waited.and(told).expect("the other goes on beside");
        while let Some(worked) = all.join_next().await {
            worked.expect("it does not panic");
        }
        assert_eq!(most.load(Ordering::SeqCst), 1);
    }
}
