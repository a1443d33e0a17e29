//! The gate's interface for the engine and the wall.
//!
//! ```text
//! open ── replace_policy ──▶ open, without what is no longer allowed
//!   ├── close ─────────────▶ closed
//!   └── an event is lost ──▶ closed: nothing passes that would not be recorded
//! ```

use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use stockade_policy::{Limit, Policy};
use stockade_provider::{Carried, Destination, Duplex, Gateway};
use stockade_record::Sink;

use crate::budget::Budget;
use crate::connection;
use crate::denials::Observed;
use crate::learned::Learned;
use crate::opening::Opening;
use crate::rules::{Learns, Rules};
use crate::secrets::SecretError;
use crate::settings::{GateError, Settings};
use crate::shared::{Served, Shared};
use crate::side::Side;

/// Streams in addition to the policy's connections: those of the name server, and those that
/// receive a refusal.
const EXTRA_STREAMS: usize = 64;

/// The network egress of one sandbox. Clones share one gate.
#[derive(Clone)]
pub struct Gate {
    shared: Arc<Shared>,
}

impl Gate {
    /// Creates a gate that passes what the policy allows, and resolves names as this machine does.
    pub fn new(policy: Arc<Policy>, sink: Arc<dyn Sink>) -> Result<Gate, GateError> {
        Gate::with_settings(policy, sink, Settings::system()?)
    }

    /// The same with the caller's settings.
    pub fn with_settings(
        policy: Arc<Policy>,
        sink: Arc<dyn Sink>,
        settings: Settings,
    ) -> Result<Gate, GateError> {
        let budget = Budget::new(&policy);
        let opening = policy.may_read_requests().then(|| Opening::new(&settings.trust));
        let opening = opening.transpose()?;
        let shared = Shared::new(Rules::Policy(policy), budget, sink, settings, opening);
        Ok(Gate { shared: Arc::new(shared) })
    }

    /// The certificates that programs inside must trust, as PEM: this machine's authorities, and
    /// that of this session. `None` if no connection is opened.
    pub fn authorities(&self) -> Option<String> {
        self.shared.opening.as_ref().map(Opening::authorities)
    }

    /// Replaces the value of a secret from now on.
    pub fn set_secret(&self, name: &str, value: String) -> Result<(), SecretError> {
        self.shared.settings.secrets.set(name, value)
    }

    /// Creates a gate that passes every public host and port and records which are used. The limits
    /// and the blocklist of the policy apply, and its entries with conditions; private, own and metadata addresses are never
    /// reached.
    pub fn learning(
        policy: Arc<Policy>,
        learns: Learns,
        sink: Arc<dyn Sink>,
        settings: Settings,
    ) -> Result<Gate, GateError> {
        let budget = Budget::new(&policy);
        let opens = learns == Learns::Requests || policy.may_read_requests();
        let opening = opens.then(|| Opening::new(&settings.trust)).transpose()?;
        let rules = Rules::Learning(policy, learns);
        Ok(Gate { shared: Arc::new(Shared::new(rules, budget, sink, settings, opening)) })
    }

    /// Applies another policy from now on and closes every connection that it does not allow. A
    /// closed gate stays closed.
    pub fn replace_policy(&self, policy: Arc<Policy>) {
        self.shared.rules.send_if_modified(|rules| {
            if matches!(rules, Rules::Closed(_)) {
                return false;
            }
            self.shared.budget.change(&policy);
            *rules = Rules::Policy(policy);
            true
        });
    }

    /// Ends every connection and refuses all further ones.
    pub fn close(&self) {
        self.shared.close("the gate of this sandbox is closed");
    }

    /// Resolves when no connection is served and every one is recorded.
    pub fn idle(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut serving = self.shared.serving.subscribe();
        async move {
            // The sender lives as long as a connection is served, so waiting cannot fail.
            let _ = serving.wait_for(|serving| *serving == 0).await;
        }
    }

    /// Resolves to the limit that ends the sandbox, once it is used up.
    pub fn exceeded(&self) -> impl Future<Output = Limit> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        async move {
            shared.budget.exceeded().await;
            Limit::EgressBytes
        }
    }

    /// The denials so far, and the limits that were reached.
    pub fn observed(&self) -> Observed {
        let mut observed = self.shared.observed().clone();
        let hit = self.shared.budget.hit();
        if hit.bytes {
            observed.limits_hit.insert(Limit::EgressBytes);
        }
        if hit.rate {
            observed.limits_hit.insert(Limit::EgressRate);
        }
        observed
    }

    /// The hosts that programs used so far. Empty unless the gate is learning.
    pub fn learned(&self) -> Vec<Learned> {
        self.shared.uses().list()
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Gate").finish_non_exhaustive()
    }
}

impl Gateway for Gate {
    fn serve(&self, destination: Destination, stream: Box<dyn Duplex>) -> BoxFuture<'static, ()> {
        let shared = Arc::clone(&self.shared);
        // The name server's streams stay open, and record each denial at once.
        let served = (destination != Destination::Names).then(|| Served::new(&shared));
        Box::pin(async move {
            tokio::select! {
                biased;
                () = shared.closed() => {}
                () = connection::serve(&shared, destination, Side::inside(stream)) => {}
            }
            drop(served);
        })
    }

    fn carries(&self) -> Carried {
        Carried { network: true, tools: false }
    }

    fn most_streams(&self) -> usize {
        let rules = self.shared.rules();
        let most = rules.policy().and_then(|policy| policy.limits.value(Limit::Connections));
        usize::try_from(most.unwrap_or(0)).unwrap_or(usize::MAX).saturating_add(EXTRA_STREAMS)
    }
}
