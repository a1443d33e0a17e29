//! Classifying IP addresses: public, private, loopback, metadata service and so on.
//!
//! A name may only resolve to a public address. The tables follow IANA's special-purpose
//! registries, and also treat the few globally reachable blocks there as special: they serve
//! routing, not hosts.

mod network;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use self::network::{Network, NetworkError};
use crate::HostName;

/// The kind of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressKind {
    /// A host of the public internet; the only kind a name may resolve to.
    Public,
    /// `0.0.0.0/8` and `::`: no host, or this one.
    Unspecified,
    /// This machine.
    Loopback,
    /// A private IPv4 network.
    Private,
    /// The network between a carrier and its customers, `100.64.0.0/10`.
    Shared,
    /// A neighbour on the same link.
    LinkLocal,
    /// The metadata service of a cloud, which serves credentials.
    Metadata,
    /// An address for use in documentation.
    Documentation,
    /// A network for benchmarking devices.
    Benchmarking,
    /// A group of hosts.
    Multicast,
    /// Assigned to a protocol, or unassigned.
    Reserved,
    /// An IPv4 address written as IPv6, `::ffff:0:0/96`.
    Mapped,
    /// An IPv4 address in the older writing `::/96`.
    Compatible,
    /// An IPv4 address behind a stateless translator, `::ffff:0:0:0/96`.
    Translated,
    /// An IPv4 address behind a NAT64 translator.
    Nat64,
    /// An IPv4 address behind a 6to4 relay, `2002::/16`.
    SixToFour,
    /// An IPv4 address behind a Teredo relay, `2001::/32`.
    Teredo,
    /// An IPv4 address in an ISATAP interface identifier.
    Isatap,
    /// A private IPv6 network, `fc00::/7`.
    UniqueLocal,
    /// A private IPv6 network of the older kind, `fec0::/10`.
    SiteLocal,
    /// A prefix whose packets are dropped, `100::/64`.
    Discard,
}

impl AddressKind {
    /// The kind in words, to follow "is" in a message.
    pub fn as_str(self) -> &'static str {
        match self {
            AddressKind::Public => "a public address",
            AddressKind::Unspecified => "an unspecified address",
            AddressKind::Loopback => "a loopback address",
            AddressKind::Private => "a private address",
            AddressKind::Shared => "a carrier's shared address",
            AddressKind::LinkLocal => "a link-local address",
            AddressKind::Metadata => "the address of a cloud metadata service",
            AddressKind::Documentation => "an address reserved for documentation",
            AddressKind::Benchmarking => "an address reserved for benchmarks",
            AddressKind::Multicast => "a multicast address",
            AddressKind::Reserved => "a reserved address",
            AddressKind::Mapped => "an IPv4 address mapped into IPv6",
            AddressKind::Compatible => "an IPv4 address in the compatible form of IPv6",
            AddressKind::Translated => "an IPv4 address in the translated form of IPv6",
            AddressKind::Nat64 => "an IPv4 address behind NAT64",
            AddressKind::SixToFour => "an IPv4 address behind 6to4",
            AddressKind::Teredo => "an IPv4 address behind Teredo",
            AddressKind::Isatap => "an IPv4 address behind ISATAP",
            AddressKind::UniqueLocal => "a unique local address",
            AddressKind::SiteLocal => "a site-local address",
            AddressKind::Discard => "a discard address",
        }
    }
}

/// Classifies an address.
pub fn classify(address: IpAddr) -> AddressKind {
    match address {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address),
    }
}

/// Whether a cloud serves its metadata, including credentials, under this name.
pub fn is_metadata_name(name: &HostName) -> bool {
    METADATA_NAMES.contains(&name.as_str())
}

/// The IPv4 addresses that tunnels and translators could extract from an IPv6 address.
pub fn embedded_v4(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let bits = u128::from(address);
    // The IPv4 address whose last bit is `shift` bits above the end.
    let at = |shift: u32| Ipv4Addr::from((bits >> shift) as u32);
    let mut found = match block_v6(address) {
        AddressKind::Mapped | AddressKind::Compatible | AddressKind::Translated => vec![at(0)],
        AddressKind::SixToFour => vec![at(80)],
        // The server's address is plain, the client's has every bit inverted.
        AddressKind::Teredo => vec![at(64), Ipv4Addr::from(!(bits as u32))],
        AddressKind::Nat64 if bits >> 32 == 0x64_ff9b << 64 => vec![at(0)],
        // The local prefix may have 48, 56, 64 or 96 bits; the octet after bit 64 is skipped, RFC
        // 6052 section 2.2.
        AddressKind::Nat64 => {
            let skipping = ((bits >> 8) & !0xff_ffff_ffff_ffff) | (bits & 0xff_ffff_ffff_ffff);
            let squeezed = |shift: u32| Ipv4Addr::from((skipping >> shift) as u32);
            vec![squeezed(40), squeezed(32), squeezed(24), at(0)]
        }
        _ => Vec::new(),
    };
    if is_isatap(bits) {
        found.push(at(0));
    }
    found
}

const METADATA_NAMES: &[&str] = &[
    "api.metadata.cloud.ibm.com",
    "instance-data",
    "instance-data.ec2.internal",
    "metadata",
    "metadata.azure.internal",
    "metadata.goog",
    "metadata.google.internal",
    "metadata.packet.net",
    "metadata.platformequinix.com",
    "metadata.tencentyun.com",
    "rancher-metadata",
];

const METADATA_V4: &[Ipv4Addr] = &[
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(169, 254, 0, 23),
    Ipv4Addr::new(169, 254, 42, 42),
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(192, 0, 0, 192),
];

const METADATA_V6: &[Ipv6Addr] = &[
    Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe),
];

/// Blocks that are not public: first address, prefix length, kind.
const BLOCKS_V4: &[([u8; 4], u32, AddressKind)] = &[
    ([0, 0, 0, 0], 8, AddressKind::Unspecified),
    ([10, 0, 0, 0], 8, AddressKind::Private),
    ([100, 64, 0, 0], 10, AddressKind::Shared),
    ([127, 0, 0, 0], 8, AddressKind::Loopback),
    ([169, 254, 0, 0], 16, AddressKind::LinkLocal),
    ([172, 16, 0, 0], 12, AddressKind::Private),
    ([192, 0, 0, 0], 24, AddressKind::Reserved),
    ([192, 0, 2, 0], 24, AddressKind::Documentation),
    ([192, 31, 196, 0], 24, AddressKind::Reserved),
    ([192, 52, 193, 0], 24, AddressKind::Reserved),
    ([192, 88, 99, 0], 24, AddressKind::Reserved),
    ([192, 168, 0, 0], 16, AddressKind::Private),
    ([192, 175, 48, 0], 24, AddressKind::Reserved),
    ([198, 18, 0, 0], 15, AddressKind::Benchmarking),
    ([198, 51, 100, 0], 24, AddressKind::Documentation),
    ([203, 0, 113, 0], 24, AddressKind::Documentation),
    ([224, 0, 0, 0], 4, AddressKind::Multicast),
    ([240, 0, 0, 0], 4, AddressKind::Reserved),
];

/// Blocks with their own kind, the narrower before the wider.
const BLOCKS_V6: &[([u16; 8], u32, AddressKind)] = &[
    ([0; 8], 128, AddressKind::Unspecified),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, AddressKind::Loopback),
    ([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, AddressKind::Mapped),
    ([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, AddressKind::Translated),
    ([0; 8], 96, AddressKind::Compatible),
    ([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, AddressKind::Nat64),
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, AddressKind::Nat64),
    ([0x100, 0, 0, 0, 0, 0, 0, 0], 64, AddressKind::Discard),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, AddressKind::Teredo),
    ([0x2001, 2, 0, 0, 0, 0, 0, 0], 48, AddressKind::Benchmarking),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, AddressKind::Reserved),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, AddressKind::Documentation),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, AddressKind::SixToFour),
    ([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48, AddressKind::Reserved),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, AddressKind::Documentation),
    ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3, AddressKind::Public),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, AddressKind::UniqueLocal),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, AddressKind::LinkLocal),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, AddressKind::SiteLocal),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, AddressKind::Multicast),
];

fn classify_v4(address: Ipv4Addr) -> AddressKind {
    if METADATA_V4.contains(&address) {
        return AddressKind::Metadata;
    }
    let bits = u32::from(address);
    BLOCKS_V4
        .iter()
        .find(|(first, prefix, _)| (bits ^ u32::from_be_bytes(*first)) >> (32 - prefix) == 0)
        .map_or(AddressKind::Public, |(_, _, kind)| *kind)
}

fn classify_v6(address: Ipv6Addr) -> AddressKind {
    let hides_metadata = || embedded_v4(address).iter().any(|v4| METADATA_V4.contains(v4));
    if METADATA_V6.contains(&address) || hides_metadata() {
        return AddressKind::Metadata;
    }
    match block_v6(address) {
        AddressKind::Public if is_isatap(address.into()) => AddressKind::Isatap,
        kind => kind,
    }
}

/// The kind of the block that contains an address; outside `2000::/3` an unlisted address is
/// reserved.
fn block_v6(address: Ipv6Addr) -> AddressKind {
    let bits = u128::from(address);
    BLOCKS_V6
        .iter()
        .find(|(first, prefix, _)| {
            (bits ^ u128::from(Ipv6Addr::from(*first))) >> (128 - prefix) == 0
        })
        .map_or(AddressKind::Reserved, |(_, _, kind)| *kind)
}

/// Whether the interface identifier is `0000:5efe` or `0200:5efe` and an IPv4 address, RFC 5214.
fn is_isatap(bits: u128) -> bool {
    matches!((bits >> 32) as u32, 0x0000_5efe | 0x0200_5efe)
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
