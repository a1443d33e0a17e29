//! How long a sandbox may run for its share of the processors.

use std::time::{Duration, Instant};

/// Nothing is looked at more often: a look costs time too, and the kernel counts in hundredths.
const SHORTEST: Duration = Duration::from_millis(5);

/// Nothing is looked at less often.
const LONGEST: Duration = Duration::from_millis(50);

/// What was not used is kept for this long, so that a pause to wait for input costs nothing. It is
/// also what a second may exceed its share by.
const KEPT: Duration = Duration::from_millis(40);

/// What to do with a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Let it run.
    Run,
    /// Stop it.
    Pause,
}

/// What to do until the next look, and when that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// What to do.
    pub(crate) action: Action,
    /// How long until the next look. A later one is made up for by a longer pause.
    pub(crate) look_again: Duration,
}

/// Keeps the cpu time of a sandbox at its limit by letting it run and stopping it in turn.
///
/// An account of cpu time: it fills as fast as the limit says and what is used is taken from it.
/// While it is overdrawn the sandbox stands still.
#[derive(Clone, Debug)]
pub(crate) struct Ration {
    cpus_millis: u64,
    /// The most cpu time that can be used in a second, in thousandths of one.
    most_millis: u64,
    last: Option<(Instant, Duration)>,
    /// In nanoseconds of cpu time.
    balance: i128,
}

impl Ration {
    /// For a limit in thousandths of a processor, and the number of processors that the sandbox can
    /// use at once: those of its affinity. The fewer, the smoother it runs.
    pub(crate) fn new(cpus_millis: u64, processors: u32) -> Ration {
        let most_millis = u64::from(processors).saturating_mul(1000);
        Ration { cpus_millis, most_millis, last: None, balance: 0 }
    }

    /// Decides with the cpu time that was used until now, since whenever. The first call only begins
    /// the account. A cpu time smaller than the one before, because somebody took his with him, is
    /// where counting goes on from.
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
            // Running, the account empties at worst as fast as all processors can.
            false => {
                let drain = self.most_millis.saturating_sub(self.cpus_millis);
                self.next(Action::Run, self.balance, drain)
            }
        }
    }

    /// A decision that holds until `amount` has gone at this speed.
    fn next(&self, action: Action, amount: i128, per_second_millis: u64) -> Decision {
        let nanos = match per_second_millis {
            0 => u64::MAX,
            speed => u64::try_from(amount * 1000 / i128::from(speed)).unwrap_or(u64::MAX),
        };
        Decision { action, look_again: Duration::from_nanos(nanos).clamp(SHORTEST, LONGEST) }
    }
}

/// The cpu time of a limit in a time, in nanoseconds.
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
