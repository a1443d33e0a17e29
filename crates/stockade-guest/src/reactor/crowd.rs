//! Many descriptors, each registered once with epoll(7).
//!
//! The kernel reports only changes (edge-triggered), so a future always tries its call before it
//! waits.

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

/// The maximum number of events per call.
const EVENTS: usize = 64;

/// An epoll instance and its descriptors.
pub(super) struct Crowd {
    epoll: OwnedFd,
    members: HashMap<u64, Member>,
    /// The number of stored wakers.
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
        // Fails only for a descriptor that is not registered.
        let _ = epoll::delete(&self.epoll, file);
    }

    pub(super) fn wait(&mut self, limit: Option<&Timespec>) -> io::Result<()> {
        if self.waiting == 0 && limit.is_none() {
            // No descriptor could ever wake a future again.
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
            // Copies the fields: the kernel's struct is packed.
            let (flags, data) = (event.flags, event.data);
            // An event may be for a descriptor that was closed meanwhile.
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
