//! What the guest says first on a stream that it opens.

use std::net::{Ipv4Addr, SocketAddrV4};

use serde::{Deserialize, Serialize};

/// Where programs inside ask for names.
pub const NAME_SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 53), 53);
/// Where programs inside find a proxy.
pub const PROXY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 54), 3128);
/// Where programs inside call tools.
pub const TOOL_SOCKET: &str = "/run/stockade/tools.sock";
/// The addresses that stand for names, and how many of their leading bits they share.
pub const NAMED: (Ipv4Addr, u8) = (Ipv4Addr::new(127, 64, 0, 0), 10);
/// Where the guest listens for all three, by TCP and UDP. No program of any use has this port.
pub const RELAY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 53), 1);

/// The first frame on a stream that the guest opens; raw bytes follow it, both ways.
///
/// The guest decides nothing: it says where a program's bytes came in, and the host does the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Opening {
    /// Questions to the name server inside, as over TCP: a length of two bytes, big endian, then
    /// a message. Answers come back in the same form and in the order of the questions.
    Names,
    /// A connection to an address that stands for a name.
    Connection {
        /// The address that was dialled.
        address: Ipv4Addr,
        /// The port that was dialled.
        port: u16,
    },
    /// A connection to the proxy inside. Whether HTTP or SOCKS is spoken, its bytes say.
    Proxy,
    /// A connection to the socket where programs call tools.
    Tools,
}

impl Opening {
    /// The most bytes that the frame of one may have.
    pub const MAX_BYTES: usize = 128;

    /// What a connection is that a program inside made to an address.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(dialled: &str) -> Option<Opening> {
        Opening::of(dialled.parse().unwrap())
    }

    #[test]
    fn dialled_address_says_what_a_connection_is() {
        let connection = |address: &str, port| {
            Some(Opening::Connection { address: address.parse().unwrap(), port })
        };
        assert_eq!(of("127.0.0.53:53"), Some(Opening::Names));
        assert_eq!(of("127.0.0.54:3128"), Some(Opening::Proxy));
        assert_eq!(of("127.64.0.0:0"), connection("127.64.0.0", 0));
        assert_eq!(of("127.127.255.255:65535"), connection("127.127.255.255", 65535));
    }

    #[test]
    fn other_addresses_say_nothing() {
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
    fn longest_opening_is_within_its_bound() {
        let longest =
            Opening::Connection { address: Ipv4Addr::new(127, 127, 255, 255), port: 65535 };
        assert!(crate::encode(&longest).unwrap().len() <= Opening::MAX_BYTES);
    }
}
