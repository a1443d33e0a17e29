//! The way out of a run: a gate where the policy can allow something, and otherwise none.

use std::sync::Arc;
use std::time::Duration;

use stockade_egress::{Gate, GateError, Learned, Settings};
use stockade_policy::{Limit, Policy};
use stockade_provider::{Gateway, Observation};
use stockade_record::{Egress, Recorder, Sink, ToolCall, Unrecorded};
use tokio::time::timeout;

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

/// The gate of one run, if it has one.
pub(crate) struct WayOut(Option<Gate>);

impl WayOut {
    /// Makes the gate. Decisions go to the record, where one is kept.
    pub(crate) fn of(
        policy: &Arc<Policy>,
        passage: Passage,
        recorder: Option<&Arc<Recorder>>,
    ) -> Result<WayOut, GateError> {
        let sink: Arc<dyn Sink> = match recorder {
            Some(recorder) => Arc::clone(recorder) as Arc<dyn Sink>,
            None => Arc::new(Unkept),
        };
        let policy = Arc::clone(policy);
        Ok(WayOut(match passage {
            Passage::Learning => Some(Gate::learning(policy, sink, Settings::system()?)),
            Passage::Allowed if policy.may_reach_anything() => Some(Gate::new(policy, sink)?),
            Passage::Allowed => None,
        }))
    }

    /// Where the wall takes connections to.
    pub(crate) fn gateway(&self) -> Option<Arc<dyn Gateway>> {
        self.0.clone().map(|gate| Arc::new(gate) as Arc<dyn Gateway>)
    }

    /// Resolves when a limit of the gate ends the run. Never resolves otherwise.
    pub(crate) async fn exceeded(&self) -> Limit {
        match &self.0 {
            Some(gate) => gate.exceeded().await,
            None => std::future::pending().await,
        }
    }

    /// Lets what an ended program sent come to its end, for a moment.
    pub(crate) async fn drain(&self) {
        if let Some(gate) = &self.0 {
            // What takes longer is cut off by closing.
            let _ = timeout(LAST_BYTES, gate.idle()).await;
        }
    }

    /// Lets nothing pass any more, and adds what was refused to what the wall saw. The wall must
    /// still be there: what is cut off is told by the tasks that served it.
    pub(crate) async fn close(&self, observed: &mut Observation) {
        let Some(gate) = &self.0 else { return };
        gate.close();
        // A connection that does not come to its end is missing in the record; none waits then.
        let _ = timeout(LAST_WORDS, gate.idle()).await;
        let seen = gate.observed();
        observed.denials.extend(seen.denials);
        observed.limits_hit.extend(seen.limits_hit);
    }

    /// What programs used while that was learned.
    pub(crate) fn learned(&self) -> Vec<Learned> {
        self.0.as_ref().map(Gate::learned).unwrap_or_default()
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
