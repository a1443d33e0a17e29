//! The addresses and names of the fake internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The router of the machine's local network, which is also its name server.
pub const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 1);
/// The machine's address in its local network.
pub const MACHINE: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 2);
/// An address of the machine that looks like an ordinary public one.
pub const MACHINE_PUBLIC: Ipv4Addr = Ipv4Addr::new(93, 184, 77, 2);
/// The router's IPv6 address.
pub const ROUTER_SIX: Ipv6Addr = Ipv6Addr::new(0x2a0e, 0x5700, 0x77, 0, 0, 0, 0, 1);
/// The machine's IPv6 address.
pub const MACHINE_SIX: Ipv6Addr = Ipv6Addr::new(0x2a0e, 0x5700, 0x77, 0, 0, 0, 0, 2);
/// The cloud metadata service.
pub const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
/// A host in a private network.
pub const PRIVATE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 5);

/// The address of `files.test`, which also echoes datagrams.
pub const PUBLIC: Ipv4Addr = Ipv4Addr::new(93, 184, 1, 1);
/// Its IPv6 address, which is that of `onlysix.test`.
pub const PUBLIC_SIX: Ipv6Addr = Ipv6Addr::new(0x2a0e, 0x5700, 1, 0, 0, 0, 0, 1);
/// A public name server.
pub const RESOLVER: Ipv4Addr = Ipv4Addr::new(8, 8, 8, 8);

/// The hardware address of the machine's end of the link; a packet with it came from the machine.
pub(crate) const MACHINE_HARDWARE: [u8; 6] = [0x02, 0, 0, 0, 0x77, 0x02];
/// The hardware address of the internet's end.
pub(crate) const ROUTER_HARDWARE: [u8; 6] = [0x02, 0, 0, 0, 0x77, 0x01];

/// Ports with HTTP.
pub const HTTP_PORTS: [u16; 3] = [80, 3000, 8080];
/// Ports with HTTP over TLS.
pub const HTTPS_PORTS: [u16; 2] = [443, 8443];
/// Ports where the server sends first, as ssh does.
pub const BANNER_PORTS: [u16; 2] = [22, 2222];
/// Ports that accept any bytes, and answer with a line that names the port.
pub const RAW_PORTS: [u16; 10] = [21, 23, 25, 110, 465, 853, 2375, 5432, 6667, 9999];
/// Ports that echo datagrams. QUIC would use 443.
pub const DATAGRAM_PORTS: [u16; 6] = [7, 443, 123, 137, 5353, 5355];

/// The servers' answer to a query for addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// These addresses, each only for queries of its family, and the TTL in seconds.
    Addresses(Vec<IpAddr>, u32),
    /// The first list for the first query, the second for later ones; with a TTL of 0.
    Rebinding(Vec<IpAddr>, Vec<IpAddr>),
    /// A CNAME; the answer includes the target's addresses.
    Alias(&'static str),
    /// The same as the address list, but only after several seconds.
    Slow(Vec<IpAddr>),
    /// NXDOMAIN.
    Nothing,
}

/// A public address of the fake internet.
const fn public(host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(93, 184, 1, host))
}

/// The answer for a name; lower case, without the final dot.
///
/// `1-2-3-4.ip.test` has the address 1.2.3.4 and `2a0e--1.six.test` the address 2a0e::1, so that
/// each test can have its own address: the servers answer for all of them.
pub(crate) fn look_up(name: &str) -> Answer {
    let one = |address: IpAddr| Answer::Addresses(vec![address], 300);
    let six = |text: &str| text.parse().map_or(Answer::Nothing, |six| one(IpAddr::V6(six)));
    if let Some(dashed) = name.strip_suffix(".ip.test") {
        return dashed
            .replace('-', ".")
            .parse()
            .map_or(Answer::Nothing, |four| one(IpAddr::V4(four)));
    }
    if let Some(dashed) = name.strip_suffix(".six.test") {
        return six(&dashed.replace('-', ":"));
    }
    match name {
        "files.test" | "www.files.test" => one(IpAddr::V4(PUBLIC)),
        "other.test" => one(public(2)),
        "evilfiles.test" | "files.test.evil.test" => one(public(3)),
        "git.test" => one(public(4)),
        "pypi.test" => one(public(5)),
        "npm.test" => one(public(6)),
        "ssh.test" => one(public(7)),
        "smuggle.test" => one(public(8)),
        "cname.test" => Answer::Alias("files.test"),
        "cname-private.test" => Answer::Alias("private.test"),
        "mixed.test" => Answer::Addresses(vec![public(10), IpAddr::V4(PRIVATE)], 300),
        "private.test" => one(IpAddr::V4(PRIVATE)),
        "meta.test" | "metadata.google.internal" => one(IpAddr::V4(METADATA)),
        "loopback.test" => one(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        "own.test" => one(IpAddr::V4(MACHINE_PUBLIC)),
        "router.test" => one(IpAddr::V4(ROUTER)),
        "onlysix.test" => one(IpAddr::V6(PUBLIC_SIX)),
        "dual.test" => Answer::Addresses(vec![public(11), six_address("2a0e:5700:1::b")], 300),
        "mapped.test" => six("::ffff:127.0.0.1"),
        "compatible.test" => six("::127.0.0.1"),
        "nat64.test" => six("64:ff9b::7f00:1"),
        "sixtofour.test" => six("2002:7f00:1::"),
        "teredo.test" => six("2001:0:5db8:101::80ff:fffe"),
        "zero.test" => Answer::Addresses(vec![public(12)], 0),
        "large.test" => Answer::Addresses((100..180).map(public).collect(), 300),
        "slow.test" => Answer::Slow(vec![public(13)]),
        _ if below(name, "rebind.test") => {
            Answer::Rebinding(vec![public(14)], vec![IpAddr::V4(Ipv4Addr::LOCALHOST)])
        }
        _ if below(name, "tunnel.test") => one(public(15)),
        _ if below(name, "files.test") => one(public(1)),
        _ => Answer::Nothing,
    }
}

fn six_address(text: &str) -> IpAddr {
    IpAddr::V6(text.parse().expect("the table has valid addresses"))
}

/// Whether a name is a domain or below it.
fn below(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_names_resolve_to_their_address() {
        let four = IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3));
        assert_eq!(look_up("10-1-2-3.ip.test"), Answer::Addresses(vec![four], 300));
        let six = six_address("2a0e::7");
        assert_eq!(look_up("2a0e--7.six.test"), Answer::Addresses(vec![six], 300));
        assert_eq!(look_up("nonsense.ip.test"), Answer::Nothing);
    }

    #[test]
    fn names_below_a_zone_match_it_and_lookalikes_do_not() {
        assert_eq!(look_up("a.b.files.test"), look_up("files.test"));
        assert_ne!(look_up("evilfiles.test"), look_up("files.test"));
        assert_eq!(look_up("nowhere.test"), Answer::Nothing);
        assert_eq!(look_up("evil-tunnel.test"), Answer::Nothing);
    }
}
