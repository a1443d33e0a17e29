//! Measures in a separate thread.
//!
//! ```text
//! idle ── look ──▶ asked ── answer in time ──▶ idle
//!                    └───── patience over ───▶ overdue ── the answer, at a later look ──▶ idle
//! ```
//! To read a process's memory maps the kernel takes a lock that the sandbox's own code can hold for
//! long. The thread waits for it, so that the deadline and the kill do not.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use crate::{Look, Meter};

/// A thread that calls the meter on request. It ends after this value is dropped; dropping does not
/// wait for it.
pub struct Aside(Mutex<Asking>);

struct Asking {
    ask: Sender<()>,
    answers: Receiver<Look>,
    /// When the unanswered request was sent.
    asked: Option<Instant>,
}

impl Aside {
    /// Starts the thread, which waits for the first request.
    pub fn start(mut meter: impl Meter) -> io::Result<Aside> {
        let ((ask, asked), (answer, answers)) = (channel(), channel());
        let work = move || {
            for () in asked {
                // The `Aside` was dropped.
                if answer.send(meter.look()).is_err() {
                    return;
                }
            }
        };
        Builder::new().name("stockade-watch".to_owned()).spawn(work)?;
        Ok(Aside(Mutex::new(Asking { ask, answers, asked: None })))
    }

    /// Requests a measurement and returns it if it arrives in time. Sends no second request while
    /// one is unanswered.
    pub fn look(&self, patience: Duration) -> Option<Look> {
        let mut asking = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if asking.asked.is_none() {
            asking.ask.send(()).ok()?;
            asking.asked = Some(Instant::now());
        }
        match asking.answers.recv_timeout(patience) {
            Ok(answer) => {
                asking.asked = None;
                Some(answer)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    /// How long the current request has been unanswered.
    pub fn overdue(&self) -> Duration {
        let asking = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asking.asked.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Measurement;

    /// A meter that blocks until it receives the number of tasks to return.
    struct Held(Receiver<u64>);

    impl Meter for Held {
        fn look(&mut self) -> Look {
            self.0.recv().map_or(Look { measured: None, exceeded: None }, tasks)
        }
    }

    fn tasks(tasks: u64) -> Look {
        let measured = Measurement { tasks, memory_bytes: 0, cpu_time: Duration::ZERO };
        Look { measured: Some(measured), exceeded: None }
    }

    #[test]
    fn blocked_measurement_does_not_block_the_caller() {
        let (go, wait) = channel();
        let aside = Aside::start(Held(wait)).unwrap();
        let start = Instant::now();
        assert_eq!(aside.look(Duration::from_millis(5)), None);
        assert_eq!(aside.look(Duration::from_millis(5)), None);
        assert!(start.elapsed() < Duration::from_secs(5));
        assert!(aside.overdue() >= Duration::from_millis(10));
        // Both calls shared one request, so its answer comes first.
        go.send(1).unwrap();
        assert_eq!(aside.look(Duration::from_secs(10)), Some(tasks(1)));
        assert_eq!(aside.overdue(), Duration::ZERO);
        go.send(2).unwrap();
        assert_eq!(aside.look(Duration::from_secs(10)), Some(tasks(2)));
    }
}
