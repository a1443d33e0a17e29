//! Redirects connections of programs to the guest, which forwards them to the host.

use std::net::SocketAddrV4;

use stockade_carrier::direct_literals;
use stockade_launcher::{Redirected, Step, Transport};
use stockade_policy::Policy;
use stockade_wire::{NAME_SERVER, NAMED, PROXY, RELAY};

/// Whether egress is possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Egress {
    /// No connection leaves the sandbox, and no process inside listens for one.
    None,
    /// The guest forwards connections to the gateway on the host.
    Gateway,
}

impl Egress {
    /// The redirection. The DNS server has the second address of the loopback interface.
    pub(super) fn step(self, policy: &Policy) -> Option<Step> {
        let exactly = |transport, place: SocketAddrV4| Redirected {
            transport,
            network: *place.ip(),
            prefix: 32,
            port: Some(place.port()),
        };
        let (network, prefix) = NAMED;
        self.with_gateway(|| {
            let own = [
                Redirected { transport: Transport::Tcp, network, prefix, port: None },
                exactly(Transport::Tcp, PROXY),
                exactly(Transport::Tcp, NAME_SERVER),
                exactly(Transport::Udp, NAME_SERVER),
            ];
            let literals = direct_literals(policy).into_iter();
            let literals = literals.map(|place| exactly(Transport::Tcp, place));
            Step::Egress { listen: RELAY, redirected: own.into_iter().chain(literals).collect() }
        })
    }

    /// Lets programs bind every port, 80 and 443 included: the network namespace has no other user.
    pub(super) fn ports(self) -> Option<Step> {
        self.with_gateway(|| Step::OpenPorts)
    }

    /// The content of `/etc/resolv.conf`.
    pub(super) fn resolver(self) -> &'static str {
        match self {
            // No server listens there, so a lookup fails at once instead of timing out.
            Egress::None => "nameserver 127.0.0.53\noptions timeout:1 attempts:1\n",
            // Without a search list, so that resolvers do not append a domain to a name.
            Egress::Gateway => "nameserver 127.0.0.53\noptions edns0 ndots:1\n",
        }
    }

    fn with_gateway<T>(self, make: impl FnOnce() -> T) -> Option<T> {
        match self {
            Egress::None => None,
            Egress::Gateway => Some(make()),
        }
    }
}
