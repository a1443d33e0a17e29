//! Looking in a thread of its own.
//!
//! ```text
//! idle ── look ──▶ asked ── answer in time ──▶ idle
//!                    └───── patience over ───▶ overdue ── the answer, at a later look ──▶ idle
//! ```
//! To read what a process maps, the kernel waits for whoever changes it, and that is code inside: a
//! sandbox that lets no process of its own get on holds up whoever looks. The deadline and the kill
//! must not wait with it.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use crate::{Look, Meter};

/// A thread that asks a meter when it is asked itself. It ends when this is dropped, and nobody waits for it.
pub struct Aside(Mutex<Asking>);

struct Asking {
    ask: Sender<()>,
    answers: Receiver<Look>,
    /// Since when an answer is missing.
    asked: Option<Instant>,
}

impl Aside {
    /// Starts the thread, which does nothing yet.
    pub fn start(mut meter: impl Meter) -> io::Result<Aside> {
        let ((ask, asked), (answer, answers)) = (channel(), channel());
        let work = move || {
            for () in asked {
                // Nobody wants an answer any more.
                if answer.send(meter.look()).is_err() {
                    return;
                }
            }
        };
        Builder::new().name("stockade-watch".to_owned()).spawn(work)?;
        Ok(Aside(Mutex::new(Asking { ask, answers, asked: None })))
    }

    /// What a look says, if it says it in time. While an answer is missing no other is asked for.
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

    /// How long an answer has been missing.
    pub fn overdue(&self) -> Duration {
        let asking = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asking.asked.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Measurement;

    /// A meter that waits for the number of tasks to tell.
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
    fn look_that_is_held_up_holds_up_nobody_else() {
        let (go, wait) = channel();
        let aside = Aside::start(Held(wait)).unwrap();
        let start = Instant::now();
        assert_eq!(aside.look(Duration::from_millis(5)), None);
        assert_eq!(aside.look(Duration::from_millis(5)), None);
        assert!(start.elapsed() < Duration::from_secs(5));
        assert!(aside.overdue() >= Duration::from_millis(10));
        // One look only was asked for: its answer is the next that is heard.
        go.send(1).unwrap();
        assert_eq!(aside.look(Duration::from_secs(10)), Some(tasks(1)));
        assert_eq!(aside.overdue(), Duration::ZERO);
        go.send(2).unwrap();
        assert_eq!(aside.look(Duration::from_secs(10)), Some(tasks(2)));
    }
}
