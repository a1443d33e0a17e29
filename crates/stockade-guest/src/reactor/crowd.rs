//! Many descriptors, each of which the kernel is told of once.
//!
//! The kernel says only that something has changed, epoll(7), and so a descriptor is always tried
//! before it is waited for.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::task::Waker;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use super::Direction;
use super::waits::Token;

/// How many changes are taken at once.
const EVENTS: usize = 64;

/// Descriptors in an epoll of their own.
pub(super) struct Crowd {
    epoll: OwnedFd,
    members: HashMap<u64, Member>,
    /// How many wakers there are.
    waiting: usize,
}

#[derive(Default)]
struct Member {
    read: Option<Waker>,
    write: Option<Waker>,
}

impl Member {
    fn waker(&mut self, direction: Direction) -> &mut Option<Waker> {
        match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
        }
    }
}

impl Crowd {
    pub(super) fn new() -> io::Result<Crowd> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Crowd { epoll, members: HashMap::new(), waiting: 0 })
    }

    pub(super) fn wake_when_ready(
        &mut self,
        file: &OwnedFd,
        token: Token,
        direction: Direction,
        waker: &Waker,
    ) -> io::Result<()> {
        if !self.members.contains_key(&token.0) {
            let all = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            epoll::add(&self.epoll, file, EventData::new_u64(token.0), all)?;
        }
        let place = self.members.entry(token.0).or_default().waker(direction);
        if place.replace(waker.clone()).is_none() {
            self.waiting += 1;
        }
        Ok(())
    }

    pub(super) fn forget(&mut self, file: &OwnedFd, token: Token) {
        let Some(member) = self.members.remove(&token.0) else { return };
        self.waiting -= usize::from(member.read.is_some()) + usize::from(member.write.is_some());
        // It fails only for a descriptor that is not in it, and then nothing is left to do.
        let _ = epoll::delete(&self.epoll, file);
    }

    pub(super) fn wait(&mut self, limit: Option<&Timespec>) -> io::Result<()> {
        if self.waiting == 0 && limit.is_none() {
            // Nothing could ever wake a future again.
            return Err(Errno::DEADLK.into());
        }
        let mut room = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        let events = loop {
            match epoll::wait(&self.epoll, &mut room, limit) {
                Ok((events, _)) => break events,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
        };
        for event in events {
            // The structure of the kernel is packed.
            let (flags, data) = (event.flags, event.data);
            // One that is gone may still have been told of.
            let Some(member) = self.members.get_mut(&data.u64()) else { continue };
            let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
            let ready = [
                (Direction::Read, EventFlags::IN | EventFlags::RDHUP),
                (Direction::Write, EventFlags::OUT),
            ];
            for (direction, meant) in ready {
                if (broken || flags.intersects(meant))
                    && let Some(waker) = member.waker(direction).take()
                {
                    self.waiting -= 1;
                    waker.wake();
                }
            }
        }
        Ok(())
    }
}
