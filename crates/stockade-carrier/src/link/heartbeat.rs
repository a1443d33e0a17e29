//! Beats on a link whose stream stays open when the guest is gone.

use std::future::pending;
use std::time::Duration;

use stockade_wire::{Heartbeat, HostMessage};
use tokio::time::{MissedTickBehavior, interval};

use super::LinkError;
use super::control::Outbox;
use super::ledger::Ledger;

/// Sends beats. Resolves after too many silent intervals, and never without a heartbeat.
///
/// Counts intervals and does not measure time: after a stop of this process one tick fires, and the
/// bytes that the guest sent meanwhile are read before the next.
pub(super) async fn beat(
    heartbeat: Option<Heartbeat>,
    ledger: &Ledger,
    outbox: Outbox,
) -> LinkError {
    let Some(heartbeat) = heartbeat else { return pending().await };
    let mut ticks = interval(Duration::from_millis(heartbeat.every_ms));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut silent = 0;
    loop {
        ticks.tick().await;
        silent = if ledger.was_alive() { 0 } else { silent + 1 };
        if silent > heartbeat.missed {
            return LinkError::Silent { intervals: silent };
        }
        if outbox.send(&HostMessage::Beat).is_err() {
            return LinkError::Closed;
        }
    }
}
