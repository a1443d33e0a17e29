//! Connections of programs to the network, and to the tools of their host.

use std::io;
use std::os::unix::net::UnixListener;

use rustix::net::sockopt;
use stockade_launcher::Listeners;

use crate::door::{Comes, Door, Places};
use crate::names;
use crate::opener::Opener;
use crate::reactor::{Descriptor, Reactor};

/// Where connections arrive. One of the two at least is there.
pub(crate) struct Doors {
    pub(crate) network: Option<Listeners>,
    pub(crate) tools: Option<UnixListener>,
}

impl Doors {
    /// Both, or nothing where nothing arrives.
    pub(crate) fn of(network: Option<Listeners>, tools: Option<UnixListener>) -> Option<Doors> {
        (network.is_some() || tools.is_some()).then_some(Doors { network, tools })
    }

    /// Serves them beside everything else. Each has places of its own: a flood at one leaves those
    /// of the other.
    pub(crate) fn serve(self, opener: &Opener, reactor: &Reactor) -> io::Result<()> {
        let count = u64::from(self.network.is_some()) + u64::from(self.tools.is_some());
        let door = |listener, comes| {
            Door::new(listener, comes, Places::of_one_door_of(count), opener, reactor)
        };
        if let Some(Listeners { connections, datagrams }) = self.network {
            // Connections from here to programs cross no network. Where the host is careful with
            // its own by pacing what it sends, that would only be late; every kernel has this one.
            let _ = sockopt::set_tcp_congestion(&connections, "reno");
            let datagrams = Descriptor::new(datagrams.into(), reactor)?;
            let door = door(connections.into(), Comes::Redirected)?;
            reactor.spawn(names::serve(datagrams, opener.clone()));
            reactor.spawn(async move { door.serve().await });
        }
        if let Some(tools) = self.tools {
            let door = door(tools.into(), Comes::ToTools)?;
            reactor.spawn(async move { door.serve().await });
        }
        Ok(())
    }
}
