//! Runs futures on one thread.
//!
//! ```text
//!        ┌── some future was woken: poll it ──┐
//!        ▼                                    │
//!     woken ── none is: wait for descriptors ── one is ready: wake its future
//! ```
//! A future whose descriptor is not ready leaves its waker here.

mod crowd;
mod descriptor;
mod tasks;
mod waits;

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use rustix::event::Timespec;

pub(crate) use descriptor::Descriptor;

use tasks::{Tasks, Woken};
use waits::Waits;

/// The readiness that a future waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// A handle to the futures and descriptors of the one thread.
#[derive(Clone, Default)]
pub(crate) struct Reactor {
    waits: Rc<RefCell<Waits>>,
    tasks: Rc<RefCell<Tasks>>,
    /// How many calls on descriptors the current future has tried.
    tried: Rc<Cell<u32>>,
}

impl Reactor {
    /// How many calls on descriptors a future may try before the reactor polls others. Without a
    /// limit, a peer that always has bytes ready would starve them.
    const TRIES_AT_ONCE: u32 = 128;

    /// A reactor that uses epoll(7), for many descriptors.
    pub(crate) fn for_many() -> io::Result<Reactor> {
        Ok(Reactor { waits: Rc::new(RefCell::new(Waits::for_many()?)), ..Reactor::default() })
    }

    /// Runs `future` concurrently until it ends or the main future does.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        self.tasks.borrow_mut().add(Box::pin(future));
    }

    /// Runs until `main` ends, then drops the spawned futures.
    pub(crate) fn run<T>(&self, main: impl Future<Output = T>) -> io::Result<T> {
        /// How many futures are polled between two polls of the main one, which sends their bytes.
        const POLLED_AT_ONCE: u32 = 8;
        /// How many rounds pass before a busy reactor checks the descriptors.
        const ROUNDS_BETWEEN_LOOKS: u32 = 16;
        let mut main = pin!(main);
        let (main_woken, main_waker) = Woken::alone();
        let ready = self.tasks.borrow().ready();
        let mut rounds = 0_u32;
        let ended = loop {
            let mut busy = main_woken.take();
            self.tried.set(0);
            if busy
                && let Poll::Ready(value) =
                    main.as_mut().poll(&mut Context::from_waker(&main_waker))
            {
                break Ok(value);
            }
            for _ in 0..POLLED_AT_ONCE {
                let Some(next) = ready.next() else { break };
                busy = true;
                self.poll_task(next);
            }
            rounds = rounds.wrapping_add(1);
            let looked = if !busy {
                self.waits.borrow_mut().wait(None)
            } else if rounds.is_multiple_of(ROUNDS_BETWEEN_LOOKS) {
                self.waits.borrow_mut().wait(Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
            } else {
                Ok(())
            };
            if let Err(error) = looked {
                break Err(error);
            }
        };
        // Taken out first: dropping a future may borrow the reactor.
        let left = std::mem::take(&mut *self.tasks.borrow_mut());
        drop(left);
        ended
    }

    /// Counts a try of the current future. Returns `false` when it must yield.
    fn may_try(&self) -> bool {
        let tried = self.tried.get();
        self.tried.set(tried.saturating_add(1));
        tried < Reactor::TRIES_AT_ONCE
    }

    /// Polls one future, taken out of the table because it may spawn others.
    fn poll_task(&self, id: usize) {
        let Some(mut task) = self.tasks.borrow_mut().take(id) else { return };
        self.tried.set(0);
        match task.poll() {
            Poll::Pending => self.tasks.borrow_mut().put_back(id, task),
            Poll::Ready(()) => {
                drop(task);
                self.tasks.borrow_mut().free(id);
            }
        }
    }
}

#[cfg(test)]
#[path = "reactor/reactor_tests.rs"]
mod tests;
