//! The egress of a run: a gate if the policy can allow a connection, and a tool broker if there are
//! tools.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_core::future::BoxFuture;
use stockade_egress::{Gate, GateError, Learned, Learns, Secrets, Settings};
use stockade_policy::{Context, Denial, Limit, Policy};
use stockade_provider::{
    Carried, DecidedRequest, Destination, Duplex, Gateway, SandboxUsage, ToolAccess,
};
use stockade_record::Sink;
use stockade_tools::{ToolBroker, Tools};
use tokio::time::timeout;

use crate::decided;
use crate::record::OfExecution;

/// How long connections may take to finish after the program ended.
const LAST_BYTES: Duration = Duration::from_millis(100);

/// How long the gate may take to record the connections that it closed.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What the gate of a run allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Passage {
    /// What the policy allows.
    #[default]
    Allowed,
    /// Every public host within the limits of the policy, to learn which hosts a program needs.
    Learning,
    /// The same, with the methods and paths of requests: the gate ends TLS.
    LearningRequests,
}

/// The most concurrent connections of programs to the broker: as many as the guest relays.
const MOST_CALLERS: usize = 1024;

/// The gate and the broker of one run, if it has them.
#[derive(Clone, Debug)]
pub(crate) struct Services {
    gate: Option<Gate>,
    broker: Option<ToolBroker>,
    secrets: Secrets,
    policy: Arc<Policy>,
    /// Where decisions go.
    sink: Arc<dyn Sink>,
    /// The number of the next request that the wall's own gate decided.
    decided: Arc<AtomicU64>,
}

impl Services {
    /// Creates the gate and the broker. Decisions go to the record, if one is kept.
    pub(crate) fn of(
        policy: &Arc<Policy>,
        passage: Passage,
        tools: Tools,
        context: &Context,
        sink: OfExecution,
        secrets: Secrets,
    ) -> Result<Services, GateError> {
        let sink: Arc<dyn Sink> = Arc::new(sink);
        // If tools are offered and the policy lists none, a call is still a denial to record.
        let has_broker = !tools.is_empty() || !policy.tools.value.is_empty();
        let broker = has_broker.then(|| {
            ToolBroker::new(Arc::clone(policy), tools, context.clone(), Arc::clone(&sink))
        });
        let (policy, to_gate) = (Arc::clone(policy), Arc::clone(&sink));
        let shared = Arc::clone(&policy);
        let gate = match passage {
            Passage::Learning | Passage::LearningRequests => {
                let learns = match passage {
                    Passage::LearningRequests => Learns::Requests,
                    Passage::Learning | Passage::Allowed => Learns::Hosts,
                };
                let settings = Settings { secrets: secrets.clone(), ..Settings::system()? };
                Some(Gate::learning(shared, learns, to_gate, settings)?)
            }
            Passage::Allowed if policy.may_reach_anything() => {
                let settings = Settings { secrets: secrets.clone(), ..Settings::system()? };
                Some(Gate::with_settings(shared, to_gate, settings)?)
            }
            Passage::Allowed => None,
        };
        Ok(Services { gate, broker, secrets, policy, sink, decided: Arc::default() })
    }

    /// The gateway to which the wall relays connections.
    pub(crate) fn gateway(&self) -> Option<Arc<dyn Gateway>> {
        let is_there = self.gate.is_some() || self.broker.is_some();
        is_there.then(|| Arc::new(self.clone()) as Arc<dyn Gateway>)
    }

    /// The certificates that programs must trust, if the gate opens connections.
    pub(crate) fn authorities(&self) -> Option<String> {
        self.gate.as_ref().and_then(Gate::authorities)
    }

    /// The secrets, of which programs have placeholders.
    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// The files and variables of the tools inside the sandbox.
    pub(crate) fn tool_access(&self) -> Option<ToolAccess> {
        self.broker.as_ref().map(ToolBroker::access)
    }

    /// Resolves when a limit of the gate ends the run. Never resolves otherwise.
    pub(crate) async fn exceeded(&self) -> Limit {
        match &self.gate {
            Some(gate) => gate.exceeded().await,
            None => std::future::pending().await,
        }
    }

    /// Waits briefly for the data that an ended program sent.
    pub(crate) async fn drain(&self) {
        if let Some(gate) = &self.gate {
            // Closing the gate cuts off slower connections.
            let _ = timeout(LAST_BYTES, gate.idle()).await;
        }
    }

    /// Closes the gate, and adds its denials to those of the wall. The wall must still exist: the
    /// tasks that served the closed connections record them.
    pub(crate) async fn close(&self, observed: &mut SandboxUsage) {
        if let Some(broker) = &self.broker {
            broker.close();
        }
        if let Some(gate) = &self.gate {
            gate.close();
            // A connection that does not finish in time is missing in the record; no process waits
            // for it.
            let _ = timeout(LAST_WORDS, gate.idle()).await;
            let seen = gate.observed();
            observed.denials.extend(seen.denials);
            observed.limits_hit.extend(seen.limits_hit);
        }
        if let Some(broker) = &self.broker {
            let _ = timeout(LAST_WORDS, broker.idle()).await;
            let seen = broker.observed();
            observed.denials.extend(seen.denials);
            observed.limits_hit.extend(seen.limits_hit);
        }
    }

    /// Records requests that the wall's own gate decided, and returns their distinct denials.
    pub(crate) fn decided(&self, requests: Vec<DecidedRequest>) -> Vec<Denial> {
        let mut denials = Vec::new();
        for request in requests {
            let number = self.decided.fetch_add(1, Ordering::Relaxed);
            let event = decided::event(&self.policy, request, number);
            if let Some(denial) = event.denial.as_ref().filter(|it| !denials.contains(*it)) {
                denials.push(denial.clone());
            }
            // The recorder keeps a failure, which ends the session.
            let _ = self.sink.egress(event);
        }
        denials
    }

    /// The limits that were reached so far.
    pub(crate) fn limits_hit(&self) -> BTreeSet<Limit> {
        let gate = self.gate.iter().flat_map(|gate| gate.observed().limits_hit);
        gate.chain(self.broker.iter().flat_map(|broker| broker.observed().limits_hit)).collect()
    }

    /// The number of tool calls, with any result.
    pub(crate) fn tool_calls(&self) -> u64 {
        self.broker.as_ref().map_or(0, |broker| broker.observed().calls)
    }

    /// The hosts that programs used while the gate was learning.
    pub(crate) fn learned(&self) -> Vec<Learned> {
        self.gate.as_ref().map(Gate::learned).unwrap_or_default()
    }
}

impl Gateway for Services {
    fn serve(&self, destination: Destination, stream: Box<dyn Duplex>) -> BoxFuture<'static, ()> {
        match (&destination, &self.gate, &self.broker) {
            (Destination::Tools, _, Some(broker)) => broker.serve(stream),
            (
                Destination::Names
                | Destination::Address { .. }
                | Destination::Host { .. }
                | Destination::Request { .. }
                | Destination::Proxy,
                Some(gate),
                _,
            ) => gate.serve(destination, stream),
            // No socket inside leads here, so only a compromised guest opens this stream: drops it.
            _ => Box::pin(async {}),
        }
    }

    fn most_streams(&self) -> usize {
        let gate = self.gate.as_ref().map_or(0, Gateway::most_streams);
        gate + self.broker.as_ref().map_or(0, |_| MOST_CALLERS)
    }

    fn carries(&self) -> Carried {
        Carried { network: self.gate.is_some(), tools: self.broker.is_some() }
    }
}
