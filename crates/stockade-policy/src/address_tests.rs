use proptest::prelude::*;

use super::*;
use crate::Host;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn kind(text: &str) -> AddressKind {
    classify(address(text))
}

fn network(text: &str) -> Network {
    Network::parse(text).unwrap()
}

fn neighbours(first: &str, last: &str) -> (Option<IpAddr>, Option<IpAddr>) {
    match (address(first), address(last)) {
        (IpAddr::V4(first), IpAddr::V4(last)) => (
            u32::from(first).checked_sub(1).map(|bits| Ipv4Addr::from(bits).into()),
            u32::from(last).checked_add(1).map(|bits| Ipv4Addr::from(bits).into()),
        ),
        (IpAddr::V6(first), IpAddr::V6(last)) => (
            u128::from(first).checked_sub(1).map(|bits| Ipv6Addr::from(bits).into()),
            u128::from(last).checked_add(1).map(|bits| Ipv6Addr::from(bits).into()),
        ),
        _ => panic!("{first} and {last} are of two families"),
    }
}

#[test]
fn every_block_starts_and_ends_as_in_the_registry() {
    use AddressKind::*;
    // first, last, kind inside, kind just before, kind just after
    for (first, last, inside, before, after) in [
        ("0.0.0.0", "0.255.255.255", Unspecified, None, Some(Public)),
        ("10.0.0.0", "10.255.255.255", Private, Some(Public), Some(Public)),
        ("100.64.0.0", "100.127.255.255", Shared, Some(Public), Some(Public)),
        ("127.0.0.0", "127.255.255.255", Loopback, Some(Public), Some(Public)),
        ("169.254.0.0", "169.254.255.255", LinkLocal, Some(Public), Some(Public)),
        ("172.16.0.0", "172.31.255.255", Private, Some(Public), Some(Public)),
        ("192.0.0.0", "192.0.0.255", Reserved, Some(Public), Some(Public)),
        ("192.0.2.0", "192.0.2.255", Documentation, Some(Public), Some(Public)),
        ("192.31.196.0", "192.31.196.255", Reserved, Some(Public), Some(Public)),
        ("192.52.193.0", "192.52.193.255", Reserved, Some(Public), Some(Public)),
        ("192.88.99.0", "192.88.99.255", Reserved, Some(Public), Some(Public)),
        ("192.168.0.0", "192.168.255.255", Private, Some(Public), Some(Public)),
        ("192.175.48.0", "192.175.48.255", Reserved, Some(Public), Some(Public)),
        ("198.18.0.0", "198.19.255.255", Benchmarking, Some(Public), Some(Public)),
        ("198.51.100.0", "198.51.100.255", Documentation, Some(Public), Some(Public)),
        ("203.0.113.0", "203.0.113.255", Documentation, Some(Public), Some(Public)),
        ("224.0.0.0", "239.255.255.255", Multicast, Some(Public), Some(Reserved)),
        ("240.0.0.0", "255.255.255.255", Reserved, Some(Multicast), None),
        ("::", "::", Unspecified, None, Some(Loopback)),
        ("::1", "::1", Loopback, Some(Unspecified), Some(Compatible)),
        ("::2", "::ffff:ffff", Compatible, Some(Loopback), Some(Reserved)),
        ("::ffff:0:0", "::ffff:ffff:ffff", Mapped, Some(Reserved), Some(Reserved)),
        ("::ffff:0:0:0", "::ffff:0:ffff:ffff", Translated, Some(Reserved), Some(Reserved)),
        ("64:ff9b::", "64:ff9b::ffff:ffff", Nat64, Some(Reserved), Some(Reserved)),
        (
            "64:ff9b:1::",
            "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
            Nat64,
            Some(Reserved),
            Some(Reserved),
        ),
        ("100::", "100::ffff:ffff:ffff:ffff", Discard, Some(Reserved), Some(Reserved)),
        ("2000::", "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Public, Some(Reserved), Some(Teredo)),
        ("2001::", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff", Teredo, Some(Public), Some(Reserved)),
        (
            "2001:1::",
            "2001:1:ffff:ffff:ffff:ffff:ffff:ffff",
            Reserved,
            Some(Teredo),
            Some(Benchmarking),
        ),
        (
            "2001:2::",
            "2001:2:0:ffff:ffff:ffff:ffff:ffff",
            Benchmarking,
            Some(Reserved),
            Some(Reserved),
        ),
        (
            "2001:2:1::",
            "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
            Reserved,
            Some(Benchmarking),
            Some(Public),
        ),
        (
            "2001:db8::",
            "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
            Documentation,
            Some(Public),
            Some(Public),
        ),
        (
            "2002::",
            "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            SixToFour,
            Some(Public),
            Some(Public),
        ),
        (
            "2620:4f:8000::",
            "2620:4f:8000:ffff:ffff:ffff:ffff:ffff",
            Reserved,
            Some(Public),
            Some(Public),
        ),
        (
            "3fff::",
            "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
            Documentation,
            Some(Public),
            Some(Public),
        ),
        (
            "3fff:1000::",
            "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            Public,
            Some(Documentation),
            Some(Reserved),
        ),
        (
            "fc00::",
            "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            UniqueLocal,
            Some(Reserved),
            Some(Reserved),
        ),
        (
            "fe80::",
            "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            LinkLocal,
            Some(Reserved),
            Some(SiteLocal),
        ),
        (
            "fec0::",
            "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            SiteLocal,
            Some(LinkLocal),
            Some(Multicast),
        ),
        ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Multicast, Some(SiteLocal), None),
    ] {
        assert_eq!((kind(first), kind(last)), (inside, inside), "{first} to {last}");
        let (previous, next) = neighbours(first, last);
        assert_eq!(previous.map(classify), before, "before {first}");
        assert_eq!(next.map(classify), after, "after {last}");
    }
}

#[test]
fn ordinary_hosts_are_public() {
    for text in ["1.1.1.1", "8.8.8.8", "140.82.112.3", "2606:4700::1111", "2a00:1450:4001::200e"] {
        assert_eq!(kind(text), AddressKind::Public, "{text}");
    }
}

#[test]
fn metadata_services_are_known_in_every_encoding() {
    for text in [
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "fe80::a9fe:a9fe",
        "::ffff:169.254.169.254",
        "::169.254.169.254",
        "::ffff:0:169.254.169.254",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::169.254.169.254",
        "64:ff9b:1:a9fe:a9:fe00::",
        "64:ff9b:1:a9:fe:a9fe::",
        "64:ff9b:1:aa:a9:fea9:fe00::",
        "64:ff9b:1:a9fe:0:0:a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "2002:a9fe:a9fe:1::5",
        "2001:0:a9fe:a9fe::",
        "2001:0:4136:e378:8000:63bf:5601:5601",
        "2a00:1450::5efe:a9fe:a9fe",
        "2a00:1450::200:5efe:a9fe:a9fe",
        "fe80::5efe:169.254.169.254",
        "::ffff:168.63.129.16",
    ] {
        assert_eq!(kind(text), AddressKind::Metadata, "{text}");
    }
}

#[test]
fn embedded_addresses_are_found() {
    let found = |text: &str| embedded_v4(text.parse().unwrap());
    let v4 = |text: &str| text.parse::<Ipv4Addr>().unwrap();
    assert_eq!(found("::ffff:127.0.0.1"), [v4("127.0.0.1")]);
    assert_eq!(found("::127.0.0.1"), [v4("127.0.0.1")]);
    assert_eq!(found("64:ff9b::7f00:1"), [v4("127.0.0.1")]);
    assert_eq!(found("2002:7f00:1::"), [v4("127.0.0.1")]);
    assert_eq!(
        found("2001:0:4136:e378:8000:63bf:3fff:fdd2"),
        [v4("65.54.227.120"), v4("192.0.2.45")]
    );
    assert_eq!(found("2a00:1450::5efe:10.0.0.1"), [v4("10.0.0.1")]);
    assert!(found("::1").is_empty());
    assert!(found("::").is_empty());
    assert!(found("2606:4700::1111").is_empty());
}

#[test]
fn metadata_names_are_recognised_and_similar_names_are_not() {
    let is_metadata = |text: &str| match Host::parse(text) {
        Ok(Host::Name(name)) => is_metadata_name(&name),
        other => panic!("{text}: {other:?}"),
    };
    for name in ["METADATA.google.internal.", "metadata", "instance-data", "metadata.goog"] {
        assert!(is_metadata(name), "{name}");
    }
    for name in ["metadata.example.com", "google.internal", "xmetadata"] {
        assert!(!is_metadata(name), "{name}");
    }
}

#[test]
fn ranges_read_and_print_in_one_form() {
    for (text, printed) in [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("203.0.113.7", "203.0.113.7/32"),
        ("2001:DB8::/32", "2001:db8::/32"),
        ("::/0", "::/0"),
        ("::1", "::1/128"),
    ] {
        assert_eq!(network(text).to_string(), printed);
        assert_eq!(network(printed), network(text));
    }
    assert_eq!(serde_json::to_string(&network("10.0.0.0/8")).unwrap(), "\"10.0.0.0/8\"");
}

#[test]
fn ambiguous_ranges_are_refused_with_a_correction() {
    let bad_prefix = |maximum| NetworkError::BadPrefix { maximum };
    for (text, error) in [
        ("", NetworkError::BadAddress),
        ("example.com/24", NetworkError::BadAddress),
        ("010.0.0.0/8", NetworkError::BadAddress),
        ("10.0/8", NetworkError::BadAddress),
        ("[::1]/128", NetworkError::BadAddress),
        ("fe80::1%1/64", NetworkError::BadAddress),
        ("10.0.0.0/33", bad_prefix(32)),
        ("10.0.0.0/", bad_prefix(32)),
        ("10.0.0.0/+8", bad_prefix(32)),
        ("10.0.0.0/08", bad_prefix(32)),
        ("10.0.0.0/8/8", bad_prefix(32)),
        ("10.0.0.0/255.0.0.0", bad_prefix(32)),
        ("::/129", bad_prefix(128)),
        ("10.1.2.3/8", NetworkError::HostBits { network: network("10.0.0.0/8") }),
        ("2001:db8::1/64", NetworkError::HostBits { network: network("2001:db8::/64") }),
        ("::ffff:10.0.0.0/104", NetworkError::Mapped { network: network("10.0.0.0/8") }),
    ] {
        assert_eq!(Network::parse(text), Err(error), "{text}");
    }
    assert_eq!(Network::parse("10.1.2.3/8").unwrap_err().remedy(), "write `10.0.0.0/8`");
}

#[test]
fn a_range_contains_its_addresses_in_every_encoding() {
    let loopback = network("127.0.0.0/8");
    for text in ["127.0.0.1", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"]
    {
        assert!(loopback.contains(address(text)), "{text}");
    }
    for text in ["128.0.0.0", "126.255.255.255", "::1", "::ffff:128.0.0.1"] {
        assert!(!loopback.contains(address(text)), "{text}");
    }
    assert!(network("0.0.0.0/0").contains(address("255.255.255.255")));
    assert!(!network("::/0").contains(address("1.2.3.4")));
    assert!(network("2001:db8::/33").contains(address("2001:db8:7fff:ffff::1")));
    assert!(!network("2001:db8::/33").contains(address("2001:db8:8000::")));
}

#[test]
fn wider_ranges_cover_narrower_ones_of_the_same_family() {
    for (wide, narrow, expected) in [
        ("10.0.0.0/8", "10.0.0.0/8", true),
        ("10.0.0.0/8", "10.1.0.0/16", true),
        ("10.1.0.0/16", "10.0.0.0/8", false),
        ("10.0.0.0/8", "11.0.0.0/16", false),
        ("0.0.0.0/0", "10.0.0.0/8", true),
        ("::/0", "10.0.0.0/8", false),
        ("0.0.0.0/0", "::/0", false),
    ] {
        assert_eq!(network(wide).covers(&network(narrow)), expected, "{wide} over {narrow}");
    }
}

proptest! {
    #[test]
    fn nothing_the_standard_library_calls_special_is_public_v4(bits in any::<u32>()) {
        let v4 = Ipv4Addr::from(bits);
        let special = v4.is_private() || v4.is_loopback() || v4.is_link_local()
            || v4.is_broadcast() || v4.is_documentation() || v4.is_multicast()
            || v4.is_unspecified();
        prop_assert!(!special || classify(v4.into()) != AddressKind::Public);
    }

    #[test]
    fn nothing_the_standard_library_calls_special_is_public_v6(
        top in prop_oneof![any::<u16>(), 0xfb00u16..=0xffff], rest in any::<u128>()
    ) {
        let v6 = Ipv6Addr::from((u128::from(top) << 112) | (rest >> 16));
        let special = v6.is_loopback() || v6.is_unspecified() || v6.is_multicast()
            || v6.is_unique_local() || v6.is_unicast_link_local()
            || v6.to_ipv4().is_some();
        prop_assert!(!special || classify(v6.into()) != AddressKind::Public);
    }

    #[test]
    fn an_address_that_embeds_another_is_never_public(bits in any::<u32>(), scheme in 0usize..6) {
        let v4 = u128::from(bits);
        let v6 = Ipv6Addr::from([
            (0xffff << 32) | v4,
            v4,
            (0x64_ff9b << 96) | v4,
            (0x2002 << 112) | (v4 << 80),
            (0x2001_0000 << 96) | u128::from(!bits),
            (0x2a00_1450 << 96) | (0x5efe << 32) | v4,
        ][scheme]);
        prop_assert_ne!(classify(v6.into()), AddressKind::Public);
        if bits > 1 {
            prop_assert!(Network::single(Ipv4Addr::from(bits).into()).contains(v6.into()));
        }
    }

    #[test]
    fn covering_agrees_with_containing(bits in any::<u32>(), wide in 0u32..=32, narrow in 0u32..=32) {
        let cut = |prefix: u32| {
            let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
            network(&format!("{}/{prefix}", Ipv4Addr::from(bits & mask)))
        };
        prop_assert!(cut(wide).contains(Ipv4Addr::from(bits).into()));
        prop_assert_eq!(cut(wide).covers(&cut(narrow)), wide <= narrow);
    }
}
