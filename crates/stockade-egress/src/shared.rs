//! State shared by all connections of one gate.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use stockade_policy::{Denial, Host, Limit};
use stockade_record::{Egress, Sink};
use tokio::sync::watch;

use crate::budget::Budget;
use crate::denials::Observed;
use crate::learned::Uses;
use crate::names::NameTable;
use crate::opening::Opening;
use crate::rules::{Rules, Spoken};
use crate::settings::Settings;

/// The most connections of one sandbox that use large reads at once.
const MAX_WIDE: usize = 8;
/// The most connections with a splice pipe, which they keep until they end.
const MAX_SPLICES: usize = 16;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) rules: watch::Sender<Rules>,
    pub(crate) budget: Budget,
    pub(crate) settings: Settings,
    /// The certificates and keys to end TLS at the gate, if the policy has rules about requests.
    pub(crate) opening: Option<Opening>,
    names: Mutex<NameTable>,
    observed: Mutex<Observed>,
    uses: Mutex<Uses>,
    sink: Arc<dyn Sink>,
    open: AtomicUsize,
    wide: AtomicUsize,
    splices: AtomicUsize,
    connections: AtomicU64,
    /// The number of guest streams being served.
    pub(crate) serving: watch::Sender<usize>,
}

impl Shared {
    pub(crate) fn new(
        rules: Rules,
        budget: Budget,
        sink: Arc<dyn Sink>,
        settings: Settings,
        opening: Option<Opening>,
    ) -> Shared {
        Shared {
            rules: watch::Sender::new(rules),
            budget,
            settings,
            opening,
            names: Mutex::default(),
            observed: Mutex::default(),
            uses: Mutex::default(),
            sink,
            open: AtomicUsize::new(0),
            wide: AtomicUsize::new(0),
            splices: AtomicUsize::new(0),
            connections: AtomicU64::new(0),
            serving: watch::Sender::new(0),
        }
    }

    /// The current rules.
    pub(crate) fn rules(&self) -> Rules {
        self.rules.borrow().clone()
    }

    /// The names that have a synthetic address.
    pub(crate) fn names(&self) -> MutexGuard<'_, NameTable> {
        lock(&self.names)
    }

    pub(crate) fn observed(&self) -> MutexGuard<'_, Observed> {
        lock(&self.observed)
    }

    pub(crate) fn uses(&self) -> MutexGuard<'_, Uses> {
        lock(&self.uses)
    }

    /// The number of a new connection.
    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A permit for an open connection, unless the limit is reached.
    pub(crate) fn admit(self: &Arc<Shared>) -> Option<ConnectionPermit> {
        let rules = self.rules.borrow();
        let most = rules.policy().and_then(|policy| policy.limits.value(Limit::Connections));
        let most = usize::try_from(most.unwrap_or(0)).unwrap_or(usize::MAX);
        drop(rules);
        let taken = self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
            (open < most).then_some(open + 1)
        });
        match taken {
            Ok(_) => Some(ConnectionPermit { shared: Arc::clone(self) }),
            Err(_) => {
                self.observed().limits_hit.insert(Limit::Connections);
                None
            }
        }
    }

    /// A permit for large reads, unless too many connections have one.
    pub(crate) fn widen(self: &Arc<Shared>) -> Option<Wide> {
        let taken = self.wide.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |wide| {
            (wide < MAX_WIDE).then_some(wide + 1)
        });
        taken.ok().map(|_| Wide { shared: Arc::clone(self) })
    }

    /// A permit for a splice pipe, unless too many connections have one.
    pub(crate) fn take_splice_slot(self: &Arc<Shared>) -> Option<SpliceSlot> {
        let taken = self.splices.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |splices| {
            (splices < MAX_SPLICES).then_some(splices + 1)
        });
        taken.ok().map(|_| SpliceSlot { shared: Arc::clone(self) })
    }

    /// Records an event. If that fails, nothing may pass any more.
    pub(crate) fn record(&self, event: Egress) {
        if let Some(denial) = &event.denial {
            self.observed().note(denial);
        }
        if self.sink.egress(event).is_err() {
            self.close("the record of this sandbox cannot be written");
        }
    }

    /// Lets nothing pass any more and ends open connections.
    pub(crate) fn close(&self, why: &'static str) {
        self.rules.send_if_modified(|rules| {
            let is_open = !matches!(rules, Rules::Closed(_));
            if is_open {
                *rules = Rules::Closed(why);
            }
            is_open
        });
    }

    /// Resolves when the gate is closed.
    pub(crate) async fn closed(&self) {
        let is_closed = |rules: &Rules| matches!(rules, Rules::Closed(_));
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.rules.subscribe().wait_for(is_closed).await;
    }

    /// Resolves when the rules have changed so that an open connection is no longer allowed.
    pub(crate) async fn refused(
        &self,
        mut seen: watch::Receiver<Rules>,
        host: &Host,
        port: u16,
        (address, is_own): (IpAddr, bool),
        spoken: Spoken,
    ) -> Denial {
        let own = if is_own { vec![address] } else { Vec::new() };
        loop {
            let rules = seen.borrow_and_update().clone();
            let verdict = rules.judge_address(host, port, address, &own);
            let speech = || rules.judge_speech(host, port, Some(address), spoken);
            if let Some(denial) = verdict.denial().or_else(speech) {
                return denial;
            }
            if seen.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// A counted connection; dropping it releases its permit.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    shared: Arc<Shared>,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection with large reads until this is dropped.
#[derive(Debug)]
pub(crate) struct Wide {
    shared: Arc<Shared>,
}

impl Drop for Wide {
    fn drop(&mut self) {
        self.shared.wide.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection with a splice pipe until this is dropped.
#[derive(Debug)]
pub(crate) struct SpliceSlot {
    shared: Arc<Shared>,
}

impl Drop for SpliceSlot {
    fn drop(&mut self) {
        self.shared.splices.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a stream as served until it is dropped.
#[derive(Debug)]
pub(crate) struct Served {
    shared: Arc<Shared>,
}

impl Served {
    pub(crate) fn new(shared: &Arc<Shared>) -> Served {
        shared.serving.send_modify(|serving| *serving += 1);
        Served { shared: Arc::clone(shared) }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.shared.serving.send_modify(|serving| *serving -= 1);
    }
}

/// The value behind a lock. A panic while it is held leaves the value bounded and consistent: every
/// change under these locks is a single call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
