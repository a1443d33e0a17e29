//! Decides what to do after a measurement. Pure.

use std::time::{Duration, Instant};

use stockade_policy::Limit;

use crate::ration::Ration;
use crate::{Action, Measurement};

/// The longest time between two measurements.
const INTERVAL: Duration = Duration::from_millis(20);

/// The limits that only the watchdog enforces; `None` if the kernel enforces it or it is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The maximum number of tasks.
    pub tasks: Option<u64>,
    /// The maximum memory.
    pub memory_bytes: Option<u64>,
    /// The CPU share, in thousandths of a CPU.
    pub cpus_millis: Option<u64>,
}

/// What to do until the next measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// End the sandbox: it exceeded this limit.
    End(Limit),
    /// Run or pause the sandbox, and measure again after this time.
    Continue(Action, Duration),
}

/// Decides about one sandbox after each measurement.
#[derive(Clone, Debug)]
pub struct Watchdog {
    bounds: Bounds,
    ration: Option<Ration>,
    /// Whether the last measurement was above the memory limit.
    was_above: bool,
}

impl Watchdog {
    /// For a sandbox that can use this many CPUs at once.
    pub fn new(bounds: Bounds, processors: u32) -> Watchdog {
        // A sandbox that may use all CPUs needs no pauses.
        let all = u64::from(processors).saturating_mul(1000);
        let share = bounds.cpus_millis.filter(|millis| *millis < all);
        let ration = share.map(|millis| Ration::new(millis, processors));
        Watchdog { bounds, ration, was_above: false }
    }

    /// Decides from what the sandbox uses now.
    pub fn decide(&mut self, now: Instant, used: &Measurement) -> Order {
        if self.bounds.tasks.is_some_and(|most| used.tasks > most) {
            return Order::End(Limit::Pids);
        }
        // A single measurement above the limit may be wrong, so two in a row are needed.
        let is_above = self.bounds.memory_bytes.is_some_and(|most| used.memory_bytes > most);
        if is_above && self.was_above {
            return Order::End(Limit::Memory);
        }
        self.was_above = is_above;
        match &mut self.ration {
            None => Order::Continue(Action::Run, INTERVAL),
            Some(ration) => {
                let decision = ration.decide(now, used.cpu_time);
                Order::Continue(decision.action, decision.look_again.min(INTERVAL))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USED: Measurement =
        Measurement { tasks: 3, memory_bytes: 100, cpu_time: Duration::from_millis(10) };
    const RUN: Order = Order::Continue(Action::Run, INTERVAL);

    fn bounded(bounds: Bounds) -> Watchdog {
        Watchdog::new(bounds, 2)
    }

    #[test]
    fn sandbox_within_its_limits_or_without_limits_keeps_running() {
        let all = Bounds { tasks: Some(3), memory_bytes: Some(100), cpus_millis: Some(2000) };
        for bounds in [Bounds::default(), all] {
            let mut watchdog = bounded(bounds);
            for _ in 0..3 {
                assert_eq!(watchdog.decide(Instant::now(), &USED), RUN);
            }
        }
    }

    #[test]
    fn one_task_too_many_ends_the_sandbox_at_once() {
        let mut watchdog = bounded(Bounds { tasks: Some(2), ..Bounds::default() });
        assert_eq!(watchdog.decide(Instant::now(), &USED), Order::End(Limit::Pids));
    }

    #[test]
    fn memory_ends_the_sandbox_after_two_measurements_above_the_limit() {
        let mut watchdog = bounded(Bounds { memory_bytes: Some(99), ..Bounds::default() });
        let below = Measurement { memory_bytes: 99, ..USED };
        let orders = [USED, below, USED, USED].map(|used| watchdog.decide(Instant::now(), &used));
        assert_eq!(orders, [RUN, RUN, RUN, Order::End(Limit::Memory)]);
    }

    #[test]
    fn sandbox_that_used_more_than_its_share_is_paused() {
        let mut watchdog = bounded(Bounds { cpus_millis: Some(500), ..Bounds::default() });
        let start = Instant::now();
        watchdog.decide(start, &USED);
        let used = Measurement { cpu_time: Duration::from_millis(210), ..USED };
        let order = watchdog.decide(start + Duration::from_millis(100), &used);
        assert_eq!(order, Order::Continue(Action::Pause, INTERVAL));
    }
}
