//! How connections of programs come to the guest, which carries them to the host.

use std::net::SocketAddrV4;

use stockade_launcher::{Redirected, Step, Transport};
use stockade_wire::{NAME_SERVER, NAMED, PROXY, RELAY};

/// Whether connections can leave the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WayOut {
    /// Nothing leaves, and nobody listens.
    None,
    /// Through the guest, to the gateway of the host.
    Gateway,
}

impl WayOut {
    /// The redirection. The name server's address is the second one of the loopback interface.
    pub(super) fn step(self) -> Option<Step> {
        let exactly = |transport, place: SocketAddrV4| Redirected {
            transport,
            network: *place.ip(),
            prefix: 32,
            port: Some(place.port()),
        };
        let (network, prefix) = NAMED;
        self.with_gateway(|| Step::WayOut {
            listen: RELAY,
            redirected: vec![
                Redirected { transport: Transport::Tcp, network, prefix, port: None },
                exactly(Transport::Tcp, PROXY),
                exactly(Transport::Tcp, NAME_SERVER),
                exactly(Transport::Udp, NAME_SERVER),
            ],
        })
    }

    /// Servers inside may have the ports that clients outside expect: nobody else is there.
    pub(super) fn ports(self) -> Option<Step> {
        self.with_gateway(|| Step::OpenPorts)
    }

    /// The content of `/etc/resolv.conf`.
    pub(super) fn resolver(self) -> &'static str {
        match self {
            // Nobody answers there: a name is refused at once instead of waited for.
            WayOut::None => "nameserver 127.0.0.53\noptions timeout:1 attempts:1\n",
            // No domain is searched: a name means what it says.
            WayOut::Gateway => "nameserver 127.0.0.53\noptions edns0 ndots:1\n",
        }
    }

    fn with_gateway<T>(self, make: impl FnOnce() -> T) -> Option<T> {
        match self {
            WayOut::None => None,
            WayOut::Gateway => Some(make()),
        }
    }
}

/// Variables by which programs find the proxy inside. All of them say HTTP, because some clients
/// fail on any other scheme; SOCKS is understood there too.
pub(crate) fn proxy_variables() -> Vec<(String, String)> {
    let proxy = format!("http://{PROXY}");
    let direct = "localhost,127.0.0.1,::1";
    let mut variables = Vec::new();
    for (name, value) in [
        ("HTTP_PROXY", proxy.as_str()),
        ("HTTPS_PROXY", &proxy),
        ("ALL_PROXY", &proxy),
        ("NO_PROXY", direct),
    ] {
        variables.push((name.to_owned(), value.to_owned()));
        variables.push((name.to_lowercase(), value.to_owned()));
    }
    variables
}
