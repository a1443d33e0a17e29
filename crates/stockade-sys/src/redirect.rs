//! Redirecting connections inside a network namespace from some destinations to another, with
//! nftables.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use rustix::net::netlink::NETFILTER;

use crate::netlink::{Act, Attributes, Batch};

/// A set of destinations to redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The protocol.
    pub transport: Transport,
    /// The first address of a range.
    pub network: Ipv4Addr,
    /// The prefix length of the range.
    pub prefix: u8,
    /// The port; all ports if missing.
    pub port: Option<u16>,
}

/// A protocol with ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Transport {
    fn number(self) -> u8 {
        match self {
            Transport::Tcp => 6,
            Transport::Udp => 17,
        }
    }
}

const NAME: &str = "stockade";

// Message types of nftables, linux/netfilter/nf_tables.h.
const NFTABLES: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = NFTABLES << 8;
const NEW_CHAIN: u16 = (NFTABLES << 8) | 3;
const NEW_RULE: u16 = (NFTABLES << 8) | 6;

/// NF_INET_LOCAL_OUT: packets that this namespace itself sends, before routing.
const HOOK_OUTPUT: u32 = 3;
/// NF_IP_PRI_NAT_DST: where destinations are rewritten.
const PRIORITY: i32 = -100;

const IPV4: u8 = 2;
const REGISTER_1: u32 = 1;
const REGISTER_2: u32 = 2;

/// Redirects everything that programs in the caller's network namespace send to one of `places` to
/// `target`. A server there reads the original destination with SO_ORIGINAL_DST, ip(7).
///
/// Applies all rules or none. Call it once per namespace.
pub fn redirect_to(target: SocketAddrV4, places: &[Redirect]) -> io::Result<()> {
    if places.iter().any(|place| u32::from(place.prefix) > u32::BITS) {
        let what = "an address has no more than 32 bits";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    batch(target, places).send(Some(NETFILTER))
}

fn batch(target: SocketAddrV4, places: &[Redirect]) -> Batch {
    // The family and version zero; for the batch frames also the subsystem.
    let head = [IPV4, 0, 0, 0];
    let [high, low] = NFTABLES.to_be_bytes();
    let frame = [0, 0, high, low];
    let mut batch = Batch::default();
    batch.message(BATCH_BEGIN, Act::Frame, &frame, |_| {});
    batch.message(NEW_TABLE, Act::Make, &head, |table| table.text(1, NAME));
    batch.message(NEW_CHAIN, Act::Make, &head, |chain| {
        chain.text(1, NAME);
        chain.text(3, NAME);
        chain.nested(4, |hook| {
            hook.number(1, HOOK_OUTPUT);
            hook.number(2, PRIORITY.cast_unsigned());
        });
        chain.text(7, "nat");
    });
    for place in places {
        batch.message(NEW_RULE, Act::Add, &head, |rule| {
            rule.text(1, NAME);
            rule.text(2, NAME);
            rule.nested(4, |list| expressions(list, place, target));
        });
    }
    batch.message(BATCH_END, Act::Frame, &frame, |_| {});
    batch
}

fn expressions(list: &mut Attributes<'_>, place: &Redirect, target: SocketAddrV4) {
    expression(list, "meta", |meta| {
        const PROTOCOL: u32 = 16;
        meta.number(1, REGISTER_1);
        meta.number(2, PROTOCOL);
    });
    equal(list, &[place.transport.number()]);
    // The destination address is at byte 16 of the IPv4 header.
    payload(list, Header::Network, 16, 4);
    let others = u32::BITS - u32::from(place.prefix);
    let mask = u32::MAX.checked_shl(others).unwrap_or(0);
    expression(list, "bitwise", |bitwise| {
        bitwise.number(1, REGISTER_1);
        bitwise.number(2, REGISTER_1);
        bitwise.number(3, 4);
        bitwise.nested(4, |data| data.number(1, mask));
        bitwise.nested(5, |data| data.number(1, 0));
    });
    equal(list, &(place.network.to_bits() & mask).to_be_bytes());
    if let Some(port) = place.port {
        // The destination port is at byte 2 of the TCP and UDP headers.
        payload(list, Header::Transport, 2, 2);
        equal(list, &port.to_be_bytes());
    }
    let value = |register: u32, bytes: &[u8], list: &mut Attributes<'_>| {
        expression(list, "immediate", |immediate| {
            immediate.number(1, register);
            immediate.nested(2, |data| data.bytes(1, bytes));
        });
    };
    value(REGISTER_1, &target.ip().octets(), list);
    value(REGISTER_2, &target.port().to_be_bytes(), list);
    expression(list, "nat", |nat| {
        const DESTINATION: u32 = 1;
        nat.number(1, DESTINATION);
        nat.number(2, u32::from(IPV4));
        nat.number(3, REGISTER_1);
        nat.number(5, REGISTER_2);
    });
}

fn expression(list: &mut Attributes<'_>, name: &str, build: impl FnOnce(&mut Attributes<'_>)) {
    list.nested(1, |element| {
        element.text(1, name);
        element.nested(2, build);
    });
}

#[derive(Clone, Copy)]
enum Header {
    Network = 1,
    Transport = 2,
}

fn payload(list: &mut Attributes<'_>, header: Header, offset: u32, bytes: u32) {
    expression(list, "payload", |payload| {
        payload.number(1, REGISTER_1);
        payload.number(2, header as u32);
        payload.number(3, offset);
        payload.number(4, bytes);
    });
}

/// Continues with the rule only if the register equals this value.
fn equal(list: &mut Attributes<'_>, value: &[u8]) {
    expression(list, "cmp", |cmp| {
        const EQUAL: u32 = 0;
        cmp.number(1, REGISTER_1);
        cmp.number(2, EQUAL);
        cmp.nested(3, |data| data.bytes(1, value));
    });
}
