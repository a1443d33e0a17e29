//! Accepts connections of programs and relays them to the host. The guest does not interpret their
//! bytes: the host does.
//!
//! ```text
//! accepted ── below the limit ──▶ stream opened ──▶ relayed ── its end ──▶ frees its place
//!     └────── limit reached ──▶ reset, or waits for a place, depending on the listener
//! ```

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Poll, Waker};

use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, getsockname, sockopt};
use rustix::process::{Resource, getrlimit};
use stockade_wire::Opening;

use crate::callers::Callers;
use crate::listeners::{Answers, SyntheticListeners};
use crate::opener::Opener;
use crate::reactor::{Descriptor, Direction, Reactor};
use crate::relay::{Room, relay, reset, room};

/// The maximum number of concurrent connections of one listener.
const MAX_CONNECTIONS: u64 = 1024;
/// Descriptors reserved for all other uses.
const OTHER_DESCRIPTORS: u64 = 64;

/// Which connections a listener accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Connections that the kernel redirected here. Those over the limit are reset, as on any
    /// network.
    Redirected,
    /// Connections to the listener's own address. Those over the limit are reset.
    Direct,
    /// Calls of tools. Those over the limit wait.
    ToTools,
    /// Reports of denied commands. Those over the limit wait.
    ToDenials,
}

impl Origin {
    /// What to report to the host about a connection; none for one that does not belong here.
    fn opening(self, client: &Descriptor) -> Option<Opening> {
        match self {
            // The original destination.
            Origin::Redirected => Opening::of_listener(sockopt::ip_original_dst(client).ok()?),
            Origin::Direct => {
                Opening::of_listener(SocketAddrV4::try_from(getsockname(client).ok()?).ok()?)
            }
            Origin::ToTools => Some(Opening::Tools),
            Origin::ToDenials => Some(Opening::Denials),
        }
    }

    /// The execution that a connection comes from, if the guest can tell.
    fn execution(self, client: &Descriptor, callers: &Callers) -> Option<u64> {
        match self {
            Origin::Redirected => callers.of_tcp(client, sockopt::ip_original_dst(client).ok()?),
            Origin::Direct => {
                callers.of_tcp(client, SocketAddrV4::try_from(getsockname(client).ok()?).ok()?)
            }
            Origin::ToTools | Origin::ToDenials => callers.of_local(client),
        }
    }

    /// Whether its connections are those of a Unix socket, where clients wait for a place.
    fn is_local(self) -> bool {
        matches!(self, Origin::ToTools | Origin::ToDenials)
    }
}

/// A listener for connections of programs.
pub(crate) struct Acceptor {
    listener: Descriptor,
    origin: Origin,
    opener: Opener,
    reactor: Reactor,
    slots: Rc<Slots>,
    room: Room,
    /// Binds listeners at the addresses that the name server returns, if the guest does that.
    synthetic: Option<Rc<SyntheticListeners>>,
}

impl Acceptor {
    pub(crate) fn new(
        listener: OwnedFd,
        origin: Origin,
        slots: Rc<Slots>,
        opener: &Opener,
        reactor: &Reactor,
    ) -> io::Result<Acceptor> {
        Ok(Acceptor {
            listener: Descriptor::new(listener, reactor)?,
            origin,
            opener: opener.clone(),
            reactor: reactor.clone(),
            slots,
            room: room(),
            synthetic: None,
        })
    }

    /// Also binds listeners for the addresses in the name server's answers.
    pub(crate) fn with_synthetic(mut self, listeners: &Rc<SyntheticListeners>) -> Acceptor {
        self.synthetic = Some(Rc::clone(listeners));
        self
    }

    /// Accepts connections in turn: opens the stream of each before it accepts the next.
    pub(crate) async fn serve(&self) {
        loop {
            if self.origin.is_local() {
                while self.slots.are_taken() {
                    self.slots.one_is_freed().await;
                }
            }
            match self.accept().await {
                Ok(client) => self.admit(client).await,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    self.slots.one_is_freed().await;
                }
                // The client has closed the connection already, accept(2).
                Err(_) => {}
            }
        }
    }

    async fn accept(&self) -> Result<Descriptor, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let accepted = poll_fn(|context| {
            self.listener.attempt(context, Direction::Read, || accept_with(&self.listener, flags))
        });
        match accepted.await {
            Ok(client) => Ok(Descriptor::new_nonblocking(client, &self.reactor)),
            Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::CONNABORTED)),
        }
    }

    async fn admit(&self, client: Descriptor) {
        let Some(opening) = self.origin.opening(&client) else { return };
        let Some(place) = Slots::take(&self.slots) else { return reset(&client) };
        let callers = self.opener.callers.get();
        let execution = callers.and_then(|callers| self.origin.execution(&client, callers));
        let Some(stream) = self.opener.open(opening, execution).await else {
            return reset(&client);
        };
        if !self.origin.is_local() {
            // The relay forwards bytes as they come; Nagle's algorithm would only delay them.
            let _ = sockopt::set_tcp_nodelay(&client, true);
        }
        let synthetic = self.synthetic.as_ref().filter(|_| opening == Opening::Names);
        let answers = synthetic.map(|listeners| Answers::new(Rc::clone(listeners)));
        let room = Rc::clone(&self.room);
        let relay = relay(client, stream, &self.opener, room, &self.reactor, answers);
        self.reactor.spawn(async move {
            relay.await;
            drop(place);
        });
    }
}

/// Limits the number of connections.
pub(crate) struct Slots {
    most: usize,
    taken: Cell<usize>,
    waiting: RefCell<Vec<Waker>>,
}

/// One connection within the limit; dropping it frees its place.
struct Slot(Rc<Slots>);

impl Slots {
    /// The limit of one of `acceptors` listeners, which share the descriptors of this process.
    pub(crate) fn of_one_acceptor_of(acceptors: u64) -> Rc<Slots> {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Slots::new(share(files, acceptors))
    }

    fn new(most: usize) -> Rc<Slots> {
        Rc::new(Slots { most, taken: Cell::new(0), waiting: RefCell::default() })
    }

    fn are_taken(&self) -> bool {
        self.taken.get() >= self.most
    }

    fn take(slots: &Rc<Slots>) -> Option<Slot> {
        if slots.are_taken() {
            return None;
        }
        slots.taken.set(slots.taken.get() + 1);
        Some(Slot(Rc::clone(slots)))
    }

    /// Returns when a connection has ended, or at once if there is no connection.
    async fn one_is_freed(&self) {
        let before = self.taken.get();
        poll_fn(|context| {
            if before == 0 || self.taken.get() < before {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// How many connections each of `acceptors` listeners may have with `files` descriptors. At least one:
/// a listener that waits for a free place must be able to get one.
fn share(files: u64, acceptors: u64) -> usize {
    let each = files.saturating_sub(OTHER_DESCRIPTORS) / acceptors.max(1);
    each.clamp(1, MAX_CONNECTIONS) as usize
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.taken.set(self.0.taken.get() - 1);
        self.0.waiting.borrow_mut().drain(..).for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    #[test]
    fn listeners_share_the_available_descriptors() {
        assert_eq!(
            [16, 64, 100, 1024, 1 << 20].map(|files| share(files, 1)),
            [1, 1, 36, 960, 1024]
        );
        assert_eq!([100, 1024, 2112].map(|files| share(files, 2)), [18, 480, 1024]);
    }

    #[test]
    fn connection_over_the_limit_waits_for_a_free_place() {
        let slots = Slots::new(2);
        let first = Slots::take(&slots);
        let second = Slots::take(&slots);
        assert!(slots.are_taken() && Slots::take(&slots).is_none());
        let mut freed = pin!(slots.one_is_freed());
        let mut context = Context::from_waker(Waker::noop());
        assert!(freed.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert!(freed.as_mut().poll(&mut context).is_ready());
        assert!(Slots::take(&slots).is_some());
        drop(second);
    }
}
