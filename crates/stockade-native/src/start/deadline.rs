//! A deadline that holds while this process is stopped or hangs.
//!
//! The engine ends programs in time by its own clock. The launcher has the same deadlines a little
//! later, as a timer of the kernel that both have open, and kills everything when it expires.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use stockade_policy::{Limit, Policy};

/// How much later the launcher acts: a process that runs has ended everything by then.
const LATER: Duration = Duration::from_millis(500);

/// The timer of one sandbox, and when it is to expire.
pub(crate) struct Deadline {
    timer: OwnedFd,
    timeout: Option<Duration>,
    /// The end of the sandbox's life and of each program that runs.
    ends: Mutex<Vec<Instant>>,
}

/// A program that is to end in time. Dropped when it has ended.
pub(crate) struct Held {
    deadline: Arc<Deadline>,
    end: Instant,
}

impl Deadline {
    /// A timer that ends the sandbox with its life.
    pub(crate) fn new(policy: &Policy) -> io::Result<Deadline> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        let limit = |limit| policy.limits.value(limit).map(Duration::from_millis);
        let lifetime = limit(Limit::Lifetime).map(end_after);
        let ends = Mutex::new(lifetime.into_iter().collect());
        let deadline = Deadline { timer, timeout: limit(Limit::Timeout), ends };
        deadline.change(|_| {})?;
        Ok(deadline)
    }

    /// What the launcher watches.
    pub(crate) fn timer(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }

    /// Counts the time of a program that is about to start, where the policy limits it.
    pub(crate) fn hold_timeout(self: &Arc<Deadline>) -> Option<Held> {
        let end = end_after(self.timeout?);
        // It fails only for numbers that are not a time.
        let _ = self.change(|ends| ends.push(end));
        Some(Held { deadline: Arc::clone(self), end })
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Instant>)) -> io::Result<()> {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut ends);
        let left = ends.iter().min().map(|end| end.saturating_duration_since(Instant::now()));
        // Zero would disarm it.
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
    /// More than any policy can ask for, where a clock cannot count further.
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
    fn timer_expires_for_the_program_that_is_to_end_first_and_for_none_that_has() {
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
