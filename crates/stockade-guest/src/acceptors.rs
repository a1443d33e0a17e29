//! Connections of programs to the network, to the tools of the host, and to report denied commands.

use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::rc::Rc;

use rustix::net::sockopt;
use stockade_launcher::Listeners;

use crate::acceptor::{Acceptor, Origin, Slots};
use crate::listeners::{NetworkListeners, Own, SyntheticListeners, open_socket};
use crate::names;
use crate::opener::Opener;
use crate::reactor::{Descriptor, Reactor};

/// The listeners for connections of programs; at least one of them exists.
pub(crate) struct Acceptors {
    network: Option<Network>,
    tools: Option<UnixListener>,
    denials: Option<UnixListener>,
}

/// The listeners for connections to the network.
enum Network {
    /// One address of the launcher, to which the kernel redirects connections.
    Redirected(Listeners),
    /// Listeners that the guest opened.
    Own(NetworkListeners),
}

impl Acceptors {
    /// The listeners that the launcher opened; none if it opened none.
    pub(crate) fn of(
        network: Option<Listeners>,
        tools: Option<UnixListener>,
        denials: Option<UnixListener>,
    ) -> Option<Acceptors> {
        let network = network.map(Network::Redirected);
        Acceptors { network, tools, denials }.if_any()
    }

    /// Opens the listeners that the command line names.
    pub(crate) fn open(own: Own) -> io::Result<Option<Acceptors>> {
        let literals = own.literals;
        let network = own.ports.map(|ports| NetworkListeners::open(ports, &literals));
        let network = network.transpose()?.map(Network::Own);
        let tools = own.tools.as_deref().map(open_socket).transpose()?;
        let denials = own.denials.as_deref().map(open_socket).transpose()?;
        Ok(Acceptors { network, tools, denials }.if_any())
    }

    fn if_any(self) -> Option<Acceptors> {
        (self.count() > 0).then_some(self)
    }

    fn count(&self) -> u64 {
        let all = [self.network.is_some(), self.tools.is_some(), self.denials.is_some()];
        all.into_iter().map(u64::from).sum()
    }

    /// Serves the listeners in the background. Each has a connection limit of its own, so that a
    /// flood on one leaves room on the other.
    pub(crate) fn serve(self, opener: &Opener, reactor: &Reactor) -> io::Result<()> {
        let count = self.count();
        match self.network {
            Some(Network::Redirected(Listeners { connections, datagrams })) => {
                let slots = Slots::of_one_acceptor_of(count);
                let datagrams = Descriptor::new(datagrams.into(), reactor)?;
                let acceptor =
                    tcp_acceptor(connections, Origin::Redirected, &slots, opener, reactor)?;
                reactor.spawn(names::serve(datagrams, opener.clone(), None));
                reactor.spawn(async move { acceptor.serve().await });
            }
            Some(Network::Own(NetworkListeners { connections, datagrams, ports })) => {
                let slots = Slots::of_one_acceptor_of(count);
                let synthetic = SyntheticListeners::new(ports, &slots, opener, reactor);
                let datagrams = Descriptor::new(datagrams.into(), reactor)?;
                reactor.spawn(names::serve(datagrams, opener.clone(), Some(Rc::clone(&synthetic))));
                for listener in connections {
                    let acceptor = tcp_acceptor(listener, Origin::Direct, &slots, opener, reactor)?;
                    let acceptor = acceptor.with_synthetic(&synthetic);
                    reactor.spawn(async move { acceptor.serve().await });
                }
            }
            None => {}
        }
        for (listener, origin) in [(self.tools, Origin::ToTools), (self.denials, Origin::ToDenials)]
        {
            let Some(listener) = listener else { continue };
            let slots = Slots::of_one_acceptor_of(count);
            let acceptor = Acceptor::new(listener.into(), origin, slots, opener, reactor)?;
            reactor.spawn(async move { acceptor.serve().await });
        }
        Ok(())
    }
}

/// Uses the congestion control `reno`, which every kernel has. These connections cross no network,
/// and pacing by the host's default would only delay them.
fn tcp_acceptor(
    listener: TcpListener,
    origin: Origin,
    slots: &Rc<Slots>,
    opener: &Opener,
    reactor: &Reactor,
) -> io::Result<Acceptor> {
    let _ = sockopt::set_tcp_congestion(&listener, "reno");
    Acceptor::new(listener.into(), origin, Rc::clone(slots), opener, reactor)
}
