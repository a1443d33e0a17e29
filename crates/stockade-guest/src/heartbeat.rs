//! Beats on a link whose stream stays open when the host is gone.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use stockade_wire::{GuestExit, GuestMessage, Heartbeat};

use crate::control::Replies;
use crate::reactor::{Descriptor, Reactor};

/// Sends beats. Resolves when the host missed too many intervals, or when the timer fails.
///
/// Counts intervals and does not measure time: a guest that was stopped sees one tick, and reads
/// the bytes that the host sent meanwhile before the next.
pub(crate) async fn beat(
    heartbeat: Heartbeat,
    reactor: Reactor,
    heard: Rc<Cell<bool>>,
    replies: Replies,
) -> GuestExit {
    let Ok(ticks) = timer(heartbeat.every_ms, &reactor) else { return GuestExit::Unprepared };
    let mut silent = 0;
    while ticks.read(&mut [0; size_of::<u64>()]).await.is_ok() {
        silent = if heard.take() { 0 } else { silent + 1 };
        if silent > heartbeat.missed {
            return GuestExit::Silent;
        }
        replies.send(GuestMessage::Beat);
    }
    GuestExit::Unprepared
}

fn timer(every_ms: u64, reactor: &Reactor) -> io::Result<Descriptor> {
    let timer =
        timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    let every = Timespec {
        tv_sec: i64::try_from(every_ms / 1000).unwrap_or(i64::MAX),
        tv_nsec: (every_ms % 1000 * 1_000_000) as _,
    };
    let times = Itimerspec { it_interval: every, it_value: every };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &times)?;
    Ok(Descriptor::new_nonblocking(timer, reactor))
}
