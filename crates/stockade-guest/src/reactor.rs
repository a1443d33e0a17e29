//! Runs futures on one thread.
//!
//! ```text
//!        ┌── some future was woken: poll it ──┐
//!        ▼                                    │
//!     woken ── none is: poll(2) on what they wait for ── a descriptor is ready: wake its future
//! ```
//! A future that finds its descriptor not ready leaves the descriptor and its waker here.

mod descriptor;

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

pub(crate) use descriptor::Descriptor;

/// What a future waits for on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// A handle to the futures and descriptors of the one thread.
#[derive(Clone, Default)]
pub(crate) struct Reactor {
    waits: Rc<RefCell<Vec<Wait>>>,
    spawned: Rc<RefCell<Vec<Task>>>,
}

impl Reactor {
    /// Runs `future` beside the others until it ends or the main one does.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        self.spawned.borrow_mut().push(Task { future: Box::pin(future), woken: Woken::now() });
    }

    /// Runs until `main` ends; what was spawned is dropped then.
    pub(crate) fn run<T>(&self, main: impl Future<Output = T>) -> io::Result<T> {
        /// How many rounds go by before descriptors are looked at although futures are busy.
        const ROUNDS_BETWEEN_LOOKS: u32 = 16;
        let mut main = pin!(main);
        let main_woken = Woken::now();
        let main_waker = Waker::from(Arc::clone(&main_woken));
        let mut tasks: Vec<Task> = Vec::new();
        let mut rounds = 0_u32;
        loop {
            let mut busy = false;
            if main_woken.take() {
                busy = true;
                if let Poll::Ready(value) =
                    main.as_mut().poll(&mut Context::from_waker(&main_waker))
                {
                    return Ok(value);
                }
            }
            tasks.append(&mut self.spawned.borrow_mut());
            tasks.retain_mut(|task| {
                let woken = task.woken.take();
                busy |= woken;
                !woken || task.poll().is_pending()
            });
            rounds = rounds.wrapping_add(1);
            if !busy {
                self.wait(None)?;
            } else if rounds.is_multiple_of(ROUNDS_BETWEEN_LOOKS) {
                self.wait(Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
            }
        }
    }

    /// Wakes `waker` when the descriptor is ready; a later call for the same replaces it.
    fn wake_when_ready(&self, file: &Rc<OwnedFd>, direction: Direction, waker: &Waker) {
        let mut waits = self.waits.borrow_mut();
        let same = |wait: &&mut Wait| Rc::ptr_eq(&wait.file, file) && wait.direction == direction;
        match waits.iter_mut().find(same) {
            Some(wait) => wait.waker.clone_from(waker),
            None => {
                waits.push(Wait { file: Rc::clone(file), direction, waker: waker.clone() });
            }
        }
    }

    /// Lets go of a descriptor, which may be closed after this.
    fn forget(&self, file: &Rc<OwnedFd>) {
        self.waits.borrow_mut().retain(|wait| !Rc::ptr_eq(&wait.file, file));
    }

    fn wait(&self, limit: Option<&Timespec>) -> io::Result<()> {
        let mut waits = self.waits.borrow_mut();
        if waits.is_empty() && limit.is_none() {
            // Nothing could ever wake a future again.
            return Err(Errno::DEADLK.into());
        }
        let mut polled: Vec<PollFd<'_>> =
            waits.iter().map(|wait| PollFd::new(&*wait.file, wait.flags())).collect();
        loop {
            match poll(&mut polled, limit) {
                Ok(_) => break,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
        }
        let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        let mut ready = ready.into_iter();
        waits.retain(|wait| {
            let ready = ready.next().unwrap_or(false);
            if ready {
                wait.waker.wake_by_ref();
            }
            !ready
        });
        Ok(())
    }
}

/// A descriptor that was not ready, and who wants to know when it is.
struct Wait {
    file: Rc<OwnedFd>,
    direction: Direction,
    waker: Waker,
}

impl Wait {
    fn flags(&self) -> PollFlags {
        match self.direction {
            Direction::Read => PollFlags::IN,
            Direction::Write => PollFlags::OUT,
        }
    }
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    woken: Arc<Woken>,
}

impl Task {
    fn poll(&mut self) -> Poll<()> {
        let waker = Waker::from(Arc::clone(&self.woken));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

/// Whether a future has something to do.
struct Woken(AtomicBool);

impl Woken {
    fn now() -> Arc<Woken> {
        Arc::new(Woken(AtomicBool::new(true)))
    }

    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "reactor/reactor_tests.rs"]
mod tests;
