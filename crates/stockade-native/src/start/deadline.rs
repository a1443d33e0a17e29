//! A deadline that works while this process is stopped or hangs.
//!
//! The engine ends programs by its own clock. The launcher has the same deadlines a little later,
//! in a timerfd that it shares with this process, and kills everything when the timer expires.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use stockade_policy::{Limit, Policy};

/// How much later the launcher acts, so that the engine acts first unless it is stopped.
const LATER: Duration = Duration::from_millis(500);

/// The timer of one sandbox, and when it expires.
pub(crate) struct Deadline {
    timer: OwnedFd,
    timeout: Option<Duration>,
    /// The end of the sandbox's lifetime and the deadline of each running program.
    ends: Mutex<Vec<Instant>>,
}

/// The deadline of a program. Dropped when the program has ended.
pub(crate) struct Held {
    deadline: Arc<Deadline>,
    end: Instant,
}

impl Deadline {
    /// Creates a timer for the sandbox's lifetime.
    pub(crate) fn new(policy: &Policy) -> io::Result<Deadline> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        let limit = |limit| policy.limits.value(limit).map(Duration::from_millis);
        let lifetime = limit(Limit::Lifetime).map(end_after);
        let ends = Mutex::new(lifetime.into_iter().collect());
        let grace = limit(Limit::TimeoutGrace).unwrap_or_default();
        let timeout = limit(Limit::Timeout).map(|timeout| timeout + grace);
        let deadline = Deadline { timer, timeout, ends };
        deadline.change(|_| {})?;
        Ok(deadline)
    }

    /// The timerfd for the launcher.
    pub(crate) fn timer(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }

    /// Adds the timeout of a program that is about to start, if the policy has one.
    pub(crate) fn hold_timeout(self: &Arc<Deadline>) -> Option<Held> {
        let end = end_after(self.timeout?);
        // Fails only for invalid times.
        let _ = self.change(|ends| ends.push(end));
        Some(Held { deadline: Arc::clone(self), end })
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Instant>)) -> io::Result<()> {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut ends);
        let left = ends.iter().min().map(|end| end.saturating_duration_since(Instant::now()));
        // Zero would disarm the timer.
        let left = left.map_or(Duration::ZERO, |left| left.max(Duration::from_nanos(1)));
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec::try_from(left).map_err(io::Error::other)?;
        let setting = Itimerspec { it_interval: none, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting)?;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.deadline.change(|ends| {
            if let Some(index) = ends.iter().position(|end| *end == self.end) {
                ends.swap_remove(index);
            }
        });
    }
}

fn end_after(time: Duration) -> Instant {
    /// Longer than any policy allows, and short enough not to overflow the clock.
    const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
    Instant::now() + time.min(LONGEST) + LATER
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    fn expires_within(deadline: &Deadline, milliseconds: i64) -> bool {
        let mut watched = [PollFd::new(&deadline.timer, PollFlags::IN)];
        let limit = Timespec { tv_sec: 0, tv_nsec: milliseconds * 1_000_000 };
        poll(&mut watched, Some(&limit)).unwrap() == 1
    }

    #[test]
    fn timer_expires_for_the_earliest_deadline_of_a_running_program() {
        let text = "{defaults: {timeout_seconds: 1}, limits: {max_lifetime_seconds: 60}}";
        let policy = Policy::parse_str("p", text, Path::new("/")).unwrap();
        let mut deadline = Deadline::new(&policy).unwrap();
        deadline.timeout = Some(Duration::ZERO);
        let deadline = Arc::new(deadline);
        assert!(!expires_within(&deadline, 0));
        drop(deadline.hold_timeout());
        assert!(!expires_within(&deadline, 800));
        let first = deadline.hold_timeout();
        let _second = deadline.hold_timeout();
        drop(first);
        assert!(expires_within(&deadline, 990));
    }
}
