//! The spawned futures, and which of them are ready to be polled.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// The futures of a reactor, by index.
#[derive(Default)]
pub(super) struct Tasks {
    slots: Vec<Option<Task>>,
    free: Vec<usize>,
    ready: Arc<Ready>,
}

/// A spawned future.
pub(super) struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    woken: Arc<Woken>,
    waker: Waker,
}

impl Tasks {
    /// Adds a future, ready to be polled.
    pub(super) fn add(&mut self, future: Pin<Box<dyn Future<Output = ()>>>) {
        let id = self.free.pop().unwrap_or(self.slots.len());
        let queue = Some((id, Arc::clone(&self.ready)));
        let woken = Arc::new(Woken { flag: AtomicBool::new(false), queue });
        let waker = Waker::from(Arc::clone(&woken));
        waker.wake_by_ref();
        let task = Some(Task { future, woken, waker });
        match self.slots.get_mut(id) {
            Some(slot) => *slot = task,
            None => self.slots.push(task),
        }
    }

    /// The queue of woken futures.
    pub(super) fn ready(&self) -> Arc<Ready> {
        Arc::clone(&self.ready)
    }

    /// Takes a future out and keeps its slot. Returns none for a future that was woken after it
    /// ended.
    pub(super) fn take(&mut self, id: usize) -> Option<Task> {
        self.slots.get_mut(id).and_then(Option::take)
    }

    pub(super) fn put_back(&mut self, id: usize, task: Task) {
        if let Some(slot) = self.slots.get_mut(id) {
            *slot = Some(task);
        }
    }

    /// Frees the slot of a future that has ended.
    pub(super) fn free(&mut self, id: usize) {
        self.free.push(id);
    }
}

impl Task {
    pub(super) fn poll(&mut self) -> Poll<()> {
        self.woken.take();
        self.future.as_mut().poll(&mut Context::from_waker(&self.waker))
    }
}

/// The indices of woken futures, in order.
#[derive(Default)]
pub(super) struct Ready {
    queue: Mutex<VecDeque<usize>>,
}

impl Ready {
    pub(super) fn next(&self) -> Option<usize> {
        self.lock().pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<usize>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The wake flag of a future.
pub(super) struct Woken {
    flag: AtomicBool,
    /// Its index and the queue, for all futures except the main one.
    queue: Option<(usize, Arc<Ready>)>,
}

impl Woken {
    /// The flag of the main future, which has no queue and is woken at first.
    pub(super) fn alone() -> (Arc<Woken>, Waker) {
        let woken = Arc::new(Woken { flag: AtomicBool::new(true), queue: None });
        let waker = Waker::from(Arc::clone(&woken));
        (woken, waker)
    }

    pub(super) fn take(&self) -> bool {
        self.flag.swap(false, Ordering::Relaxed)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let before = self.flag.swap(true, Ordering::Relaxed);
        if let (false, Some((id, ready))) = (before, &self.queue) {
            ready.lock().push_back(*id);
        }
    }
}
