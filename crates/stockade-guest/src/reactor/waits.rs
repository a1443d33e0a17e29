//! Which futures wait for which descriptors.
//!
//! Uses poll(2) for a few descriptors, because it needs no setup, and epoll(7) for many.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::Waker;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::Direction;
use super::crowd::Crowd;

/// Identifies a descriptor while it is open; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Token(pub(super) u64);

/// The descriptors of a reactor that were not ready.
pub(super) struct Waits {
    kind: Kind,
    tokens: u64,
}

enum Kind {
    Few(Vec<Wait>),
    Many(Crowd),
}

/// A waker for one descriptor and direction.
struct Wait {
    file: Rc<OwnedFd>,
    token: Token,
    direction: Direction,
    waker: Waker,
}

impl Default for Waits {
    fn default() -> Waits {
        Waits { kind: Kind::Few(Vec::new()), tokens: 0 }
    }
}

impl Waits {
    pub(super) fn for_many() -> io::Result<Waits> {
        Ok(Waits { kind: Kind::Many(Crowd::new()?), tokens: 0 })
    }

    pub(super) fn token(&mut self) -> Token {
        self.tokens += 1;
        Token(self.tokens)
    }

    /// Wakes `waker` when the descriptor is ready; replaces an earlier waker of the same direction.
    pub(super) fn wake_when_ready(
        &mut self,
        file: &Rc<OwnedFd>,
        token: Token,
        direction: Direction,
        waker: &Waker,
    ) -> io::Result<()> {
        match &mut self.kind {
            Kind::Few(waits) => {
                let same = |wait: &&mut Wait| wait.token == token && wait.direction == direction;
                match waits.iter_mut().find(same) {
                    Some(wait) => wait.waker.clone_from(waker),
                    None => {
                        let (file, waker) = (Rc::clone(file), waker.clone());
                        waits.push(Wait { file, token, direction, waker });
                    }
                }
                Ok(())
            }
            Kind::Many(crowd) => crowd.wake_when_ready(file, token, direction, waker),
        }
    }

    /// Removes a descriptor, which may then be closed.
    pub(super) fn forget(&mut self, file: &OwnedFd, token: Token) {
        match &mut self.kind {
            Kind::Few(waits) => waits.retain(|wait| wait.token != token),
            Kind::Many(crowd) => crowd.forget(file, token),
        }
    }

    /// Waits until a descriptor is ready, and wakes the futures that wait for it.
    pub(super) fn wait(&mut self, limit: Option<&Timespec>) -> io::Result<()> {
        match &mut self.kind {
            Kind::Few(waits) => wait_for_few(waits, limit),
            Kind::Many(crowd) => crowd.wait(limit),
        }
    }
}

fn wait_for_few(waits: &mut Vec<Wait>, limit: Option<&Timespec>) -> io::Result<()> {
    if waits.is_empty() && limit.is_none() {
        // No descriptor could ever wake a future again.
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

impl Wait {
    fn flags(&self) -> PollFlags {
        match self.direction {
            Direction::Read => PollFlags::IN,
            Direction::Write => PollFlags::OUT,
        }
    }
}
