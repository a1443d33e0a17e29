//! Enforces a CPU share by pausing and resuming a sandbox.

use std::time::{Duration, Instant};

/// The shortest interval: a measurement costs time too, and the kernel counts CPU time in
/// hundredths of a second.
const SHORTEST: Duration = Duration::from_millis(5);

/// The longest interval.
const LONGEST: Duration = Duration::from_millis(50);

/// Unused CPU time of this period is kept, so that waiting for input costs a sandbox nothing. A
/// sandbox can exceed its share in one second by this much.
const KEPT: Duration = Duration::from_millis(40);

/// What to do with a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Let it run.
    Run,
    /// Stop it.
    Pause,
}

/// What to do until the next measurement, and when that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// What to do.
    pub(crate) action: Action,
    /// How long until the next measurement. If it comes late, the next pause is longer.
    pub(crate) look_again: Duration,
}

/// Keeps a sandbox at its CPU limit by pausing and resuming it.
///
/// A token bucket of CPU time: it fills at the rate of the limit, and used CPU time is subtracted.
/// While the balance is negative the sandbox is paused.
#[derive(Clone, Debug)]
pub(crate) struct Ration {
    cpus_millis: u64,
    /// The most CPU time that the sandbox can use in a second, in thousandths of a CPU.
    most_millis: u64,
    last: Option<(Instant, Duration)>,
    /// In nanoseconds of cpu time.
    balance: i128,
}

impl Ration {
    /// Takes the limit in thousandths of a CPU and the number of CPUs in the sandbox's CPU
    /// affinity. The fewer CPUs, the shorter the pauses.
    pub(crate) fn new(cpus_millis: u64, processors: u32) -> Ration {
        let most_millis = u64::from(processors).saturating_mul(1000);
        Ration { cpus_millis, most_millis, last: None, balance: 0 }
    }

    /// Decides from the total CPU time so far; the first call only sets the starting point. The
    /// total can fall, because a process whose parent ignores SIGCHLD takes its CPU time with it:
    /// counting then continues from the lower value.
    pub(crate) fn decide(&mut self, now: Instant, cpu_time: Duration) -> Decision {
        if let Some((then, before)) = self.last {
            let elapsed = now.saturating_duration_since(then);
            let used = cpu_time.saturating_sub(before);
            let kept = share(KEPT, self.cpus_millis);
            let balance = self.balance + share(elapsed, self.cpus_millis) - nanos(used);
            self.balance = balance.min(kept);
        }
        self.last = Some((now, cpu_time));
        match self.balance < 0 {
            true => self.next(Action::Pause, -self.balance, self.cpus_millis),
            // While the sandbox runs, the balance falls at most as fast as all its CPUs can use it.
            false => {
                let drain = self.most_millis.saturating_sub(self.cpus_millis);
                self.next(Action::Run, self.balance, drain)
            }
        }
    }

    /// A decision that holds until `amount` is used up at this rate.
    fn next(&self, action: Action, amount: i128, per_second_millis: u64) -> Decision {
        let nanos = match per_second_millis {
            0 => u64::MAX,
            speed => u64::try_from(amount * 1000 / i128::from(speed)).unwrap_or(u64::MAX),
        };
        Decision { action, look_again: Duration::from_nanos(nanos).clamp(SHORTEST, LONGEST) }
    }
}

/// The CPU time, in nanoseconds, that a limit allows in a period.
fn share(time: Duration, cpus_millis: u64) -> i128 {
    nanos(time) * i128::from(cpus_millis) / 1000
}

fn nanos(time: Duration) -> i128 {
    // A duration is below 2^94 nanoseconds.
    time.as_nanos() as i128
}

#[cfg(test)]
#[path = "ration_tests.rs"]
mod tests;
