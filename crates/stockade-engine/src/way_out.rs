//! The ways out of a run: a gate where the policy can allow a connection, a broker where there are
//! tools, and otherwise none.

use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use stockade_egress::{Gate, GateError, Learned, Settings};
use stockade_policy::{Context, Limit, Policy};
use stockade_provider::{Carried, Destination, Duplex, Gateway, SandboxUsage, ToolAccess};
use stockade_record::{Egress, Recorder, Sink, ToolCall, Unrecorded};
use stockade_tools::{ToolBroker, Tools};
use tokio::time::timeout;

use crate::record::OfExecution;

/// How long connections may take to come to their end after the program has.
const LAST_BYTES: Duration = Duration::from_millis(100);

/// How long it may take until everything that was cut off is told to the record.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What passes the gate of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Passage {
    /// What the policy allows.
    #[default]
    Allowed,
    /// Every public host within the limits of the policy, to learn which are needed.
    Learning,
}

/// The most connections of programs to the broker at once: as many as the guest carries.
const MOST_CALLERS: usize = 1024;

/// The gate and the broker of one run, as far as it has them.
#[derive(Clone, Debug)]
pub(crate) struct WayOut {
    gate: Option<Gate>,
    broker: Option<ToolBroker>,
}

impl WayOut {
    /// Makes the gate and the broker. Decisions go to the record, where one is kept.
    pub(crate) fn of(
        policy: &Arc<Policy>,
        passage: Passage,
        tools: Tools,
        context: &Context,
        recorder: Option<&Arc<Recorder>>,
    ) -> Result<WayOut, GateError> {
        let sink: Arc<dyn Sink> = match recorder {
            Some(recorder) => Arc::new(OfExecution(Arc::clone(recorder))),
            None => Arc::new(Unkept),
        };
        // Where tools are offered and none is listed, a call is still a denial that is told.
        let has_broker = !tools.is_empty() || !policy.tools.value.is_empty();
        let broker = has_broker.then(|| {
            ToolBroker::new(Arc::clone(policy), tools, context.clone(), Arc::clone(&sink))
        });
        let policy = Arc::clone(policy);
        let gate = match passage {
            Passage::Learning => Some(Gate::learning(policy, sink, Settings::system()?)),
            Passage::Allowed if policy.may_reach_anything() => Some(Gate::new(policy, sink)?),
            Passage::Allowed => None,
        };
        Ok(WayOut { gate, broker })
    }

    /// Where the wall takes connections to.
    pub(crate) fn gateway(&self) -> Option<Arc<dyn Gateway>> {
        let is_there = self.gate.is_some() || self.broker.is_some();
        is_there.then(|| Arc::new(self.clone()) as Arc<dyn Gateway>)
    }

    /// What the sandbox shows of the tools.
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

    /// Lets what an ended program sent come to its end, for a moment.
    pub(crate) async fn drain(&self) {
        if let Some(gate) = &self.gate {
            // What takes longer is cut off by closing.
            let _ = timeout(LAST_BYTES, gate.idle()).await;
        }
    }

    /// Lets nothing pass any more, and adds what was refused to what the wall saw. The wall must
    /// still be there: what is cut off is told by the tasks that served it.
    pub(crate) async fn close(&self, observed: &mut SandboxUsage) {
        if let Some(broker) = &self.broker {
            broker.close();
        }
        if let Some(gate) = &self.gate {
            gate.close();
            // A connection that does not come to its end is missing in the record; none waits then.
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

    /// How many calls of tools there were, whatever came of them.
    pub(crate) fn tool_calls(&self) -> u64 {
        self.broker.as_ref().map_or(0, |broker| broker.observed().calls)
    }

    /// What programs used while that was learned.
    pub(crate) fn learned(&self) -> Vec<Learned> {
        self.gate.as_ref().map(Gate::learned).unwrap_or_default()
    }
}

impl Gateway for WayOut {
    fn serve(&self, destination: Destination, stream: Box<dyn Duplex>) -> BoxFuture<'static, ()> {
        match (&destination, &self.gate, &self.broker) {
            (Destination::Tools, _, Some(broker)) => broker.serve(stream),
            (
                Destination::Names
                | Destination::Address { .. }
                | Destination::Host { .. }
                | Destination::Proxy,
                Some(gate),
                _,
            ) => gate.serve(destination, stream),
            // Nothing inside listens for it, so only a guest that lies opens it: it is dropped.
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

/// Where decisions go when no record is kept.
#[derive(Debug)]
struct Unkept;

impl Sink for Unkept {
    fn egress(&self, _: Egress) -> Result<(), Unrecorded> {
        Ok(())
    }

    fn tool_call(&self, _: ToolCall) -> Result<(), Unrecorded> {
        Ok(())
    }
}
