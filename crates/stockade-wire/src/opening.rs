//! The first frame on a stream that the guest opens.

use std::net::{Ipv4Addr, SocketAddrV4};

use serde::{Deserialize, Serialize};

/// The address of the name server inside.
pub const NAME_SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 53), 53);
/// The address of the proxy inside.
pub const PROXY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 54), 3128);
/// The socket on which programs inside call tools.
pub const TOOL_SOCKET: &str = "/run/stockade/tools.sock";
/// The socket on which stubs of the hardened image report denied commands, where the guest opens it.
pub const DENIAL_SOCKET: &str = "/run/stockade-guest/denials.sock";
/// The same where the launcher opens it, in a directory that no process inside can change.
pub const LAUNCHED_DENIAL_SOCKET: &str = "/run/stockade/denials.sock";
/// The network of the synthetic addresses, which stand in for host names, and its prefix length.
pub const NAMED: (Ipv4Addr, u8) = (Ipv4Addr::new(127, 64, 0, 0), 10);
/// The TCP and UDP address to which connections to all of these addresses are redirected. Programs
/// do not use port 1 in practice.
pub const RELAY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 53), 1);

/// The first frame on a stream that the guest opens; raw bytes follow it in both directions.
///
/// The guest decides nothing: it reports where a program connected, and the host decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamOpening {
    /// What the stream carries.
    pub opening: Opening,
    /// The execution whose program connected, if several run and the guest can tell. Only names in
    /// records and reports depend on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<u64>,
}

impl StreamOpening {
    /// The maximum length of the frame.
    pub const MAX_BYTES: usize = 128;
}

/// What a stream carries that the guest opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Opening {
    /// Queries to the name server inside, framed as in DNS over TCP: a length of two bytes, big
    /// endian, then a message. Answers have the same form and the order of the queries.
    Names,
    /// A connection to a synthetic address, or to a loopback address that the policy lists.
    Connection {
        /// The address that was dialled.
        address: Ipv4Addr,
        /// The port that was dialled.
        port: u16,
    },
    /// A connection to the proxy inside. Its first bytes show whether it is HTTP or SOCKS.
    Proxy,
    /// A connection to the tool socket.
    Tools,
    /// A connection to the socket on which stubs of an image report the commands that the image
    /// denies: the name of one command, and a line end.
    Denials,
}

impl Opening {
    /// The kind of a connection that a program inside made to `dialled`.
    pub fn of(dialled: SocketAddrV4) -> Option<Opening> {
        let (network, prefix) = NAMED;
        let leading = |address: Ipv4Addr| address.to_bits() >> (u32::BITS - u32::from(prefix));
        match dialled {
            NAME_SERVER => Some(Opening::Names),
            PROXY => Some(Opening::Proxy),
            _ if leading(*dialled.ip()) == leading(network) => {
                Some(Opening::Connection { address: *dialled.ip(), port: dialled.port() })
            }
            _ => None,
        }
    }

    /// The same for a connection that reached a listener of the guest. Those to neither a
    /// synthetic address nor a service of the guest come from an address that the policy lists.
    pub fn of_listener(dialled: SocketAddrV4) -> Option<Opening> {
        let (address, port) = (*dialled.ip(), dialled.port());
        match Opening::of(dialled) {
            // A program dialled the relay itself.
            None if dialled == RELAY => None,
            None => Some(Opening::Connection { address, port }),
            opening => opening,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(dialled: &str) -> Option<Opening> {
        Opening::of(dialled.parse().unwrap())
    }

    #[test]
    fn dialled_address_determines_the_opening() {
        let connection = |address: &str, port| {
            Some(Opening::Connection { address: address.parse().unwrap(), port })
        };
        assert_eq!(of("127.0.0.53:53"), Some(Opening::Names));
        assert_eq!(of("127.0.0.54:3128"), Some(Opening::Proxy));
        assert_eq!(of("127.64.0.0:0"), connection("127.64.0.0", 0));
        assert_eq!(of("127.127.255.255:65535"), connection("127.127.255.255", 65535));
    }

    #[test]
    fn other_addresses_have_no_opening() {
        for dialled in [
            "127.0.0.53:1",
            "127.0.0.53:54",
            "127.0.0.54:53",
            "127.0.0.53:3128",
            "127.63.255.255:443",
            "127.128.0.0:443",
            "128.64.0.1:443",
            "0.0.0.0:53",
        ] {
            assert_eq!(of(dialled), None, "{dialled}");
        }
    }

    #[test]
    fn other_connections_to_a_listener_keep_their_address_except_those_to_the_relay() {
        let of = |dialled: &str| Opening::of_listener(dialled.parse().unwrap());
        let address = Ipv4Addr::LOCALHOST;
        assert_eq!(of("127.0.0.1:5432"), Some(Opening::Connection { address, port: 5432 }));
        assert_eq!(of("127.0.0.53:53"), Some(Opening::Names));
        assert_eq!(of("127.0.0.54:3128"), Some(Opening::Proxy));
        assert_eq!(of("127.0.0.53:1"), None);
    }

    #[test]
    fn longest_opening_is_within_its_bound() {
        let opening =
            Opening::Connection { address: Ipv4Addr::new(127, 127, 255, 255), port: 65535 };
        let longest = StreamOpening { opening, execution: Some(u64::MAX) };
        assert!(crate::encode(&longest).unwrap().len() <= StreamOpening::MAX_BYTES);
        let shortest = StreamOpening { opening: Opening::Proxy, execution: None };
        assert_eq!(serde_json::to_string(&shortest).unwrap(), "{\"opening\":\"proxy\"}");
    }
}
