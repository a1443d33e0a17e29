//! Connections of programs, from where they arrive to the host. Nothing is decided here: what is
//! said on a connection is for the host to read.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Poll, Waker};

use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, sockopt};
use rustix::process::{Resource, getrlimit};
use stockade_launcher::Listeners;
use stockade_wire::Opening;

use crate::names;
use crate::opener::Opener;
use crate::reactor::{Descriptor, Direction, Reactor};
use crate::relay::{Room, relay, reset, room};

/// The most connections at once.
const MAX_CONNECTIONS: usize = 1024;
/// Descriptors that are kept for everything else.
const OTHER_DESCRIPTORS: u64 = 64;

/// Serves the listeners beside everything else.
pub(crate) fn serve(listeners: Listeners, opener: &Opener, reactor: &Reactor) -> io::Result<()> {
    let connections = Descriptor::new(listeners.connections.into(), reactor)?;
    let datagrams = Descriptor::new(listeners.datagrams.into(), reactor)?;
    let door = Door {
        listener: connections,
        opener: opener.clone(),
        reactor: reactor.clone(),
        places: Places::new(),
        room: room(),
    };
    reactor.spawn(names::serve(datagrams, opener.clone()));
    reactor.spawn(async move { door.serve().await });
    Ok(())
}

/// Where connections arrive.
struct Door {
    listener: Descriptor,
    opener: Opener,
    reactor: Reactor,
    places: Rc<Places>,
    room: Room,
}

impl Door {
    /// Accepts one after another: each has its stream before the next is looked at.
    async fn serve(&self) {
        loop {
            match self.accept().await {
                Ok(client) => self.admit(client).await,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    self.places.one_is_freed().await;
                }
                // What had come is gone again, accept(2).
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
        // Where it was going before it was sent here; what was not sent here has no place here.
        let Ok(dialled) = sockopt::ip_original_dst(&client) else { return };
        let Some(opening) = Opening::of(dialled) else { return };
        let Some(place) = Places::take(&self.places) else { return reset(&client) };
        let Some(stream) = self.opener.open(opening).await else { return reset(&client) };
        // What comes is passed on as it comes; waiting for more only makes it late.
        let _ = sockopt::set_tcp_nodelay(&client, true);
        let relay = relay(client, stream, Rc::clone(&self.opener.ends), Rc::clone(&self.room));
        self.reactor.spawn(async move {
            relay.await;
            drop(place);
        });
    }
}

/// How many connections there may be.
struct Places {
    most: usize,
    taken: Cell<usize>,
    waiting: RefCell<Option<Waker>>,
}

/// One of them; dropping it frees it.
struct Place(Rc<Places>);

impl Places {
    fn new() -> Rc<Places> {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let most = files.saturating_sub(OTHER_DESCRIPTORS).min(MAX_CONNECTIONS as u64);
        Rc::new(Places { most: most as usize, taken: Cell::new(0), waiting: RefCell::default() })
    }

    fn take(places: &Rc<Places>) -> Option<Place> {
        if places.taken.get() >= places.most {
            return None;
        }
        places.taken.set(places.taken.get() + 1);
        Some(Place(Rc::clone(places)))
    }

    /// Returns when a connection has ended, or at once if there is none.
    async fn one_is_freed(&self) {
        let before = self.taken.get();
        poll_fn(|context| {
            if before == 0 || self.taken.get() < before {
                return Poll::Ready(());
            }
            *self.waiting.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.set(self.0.taken.get() - 1);
        if let Some(waker) = self.0.waiting.borrow_mut().take() {
            waker.wake();
        }
    }
}
