use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

fn canonical(text: &str) -> String {
    Host::parse(text).unwrap_or_else(|error| panic!("{text:?} {error}")).to_string()
}

fn refusal(text: &str) -> HostError {
    match Host::parse(text) {
        Ok(host) => panic!("{text:?} was read as {host}"),
        Err(error) => error,
    }
}

#[test]
fn names_become_lower_case_without_trailing_dot() {
    for (text, expected) in [
        ("example.com", "example.com"),
        ("EXAMPLE.Com", "example.com"),
        ("example.com.", "example.com"),
        ("localhost", "localhost"),
        (
            "r3---sn-apo3qvuoxuxbt-j5pe.googlevideo.com",
            "r3---sn-apo3qvuoxuxbt-j5pe.googlevideo.com",
        ),
        ("3com.com", "3com.com"),
        ("1.2.3.4.example", "1.2.3.4.example"),
        ("0x7f.example", "0x7f.example"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
        ("faß.example", "xn--fa-hia.example"),
        ("例え.jp", "xn--r8jz45g.jp"),
    ] {
        assert_eq!(canonical(text), expected, "{text}");
    }
}

#[test]
fn addresses_are_read_in_their_plain_spelling_only() {
    for (text, expected) in [
        ("127.0.0.1", "127.0.0.1"),
        ("1.2.3.4.", "1.2.3.4"),
        ("0.0.0.0", "0.0.0.0"),
        ("[::1]", "[::1]"),
        ("::1", "[::1]"),
        ("[2001:DB8:0:0::1]", "[2001:db8::1]"),
        ("[::ffff:127.0.0.1]", "[::ffff:127.0.0.1]"),
    ] {
        assert_eq!(canonical(text), expected, "{text}");
    }
}

#[test]
fn old_spellings_of_addresses_are_refused_and_named() {
    let loopback = Ipv4Addr::LOCALHOST;
    for text in [
        "2130706433",
        "0177.0.0.1",
        "0x7f.1",
        "0X7F.1",
        "127.1",
        "127.0.1",
        "017700000001",
        "0x7f000001",
        "127.0.0.01",
        "127.0.0.0x1",
        "0177.0.0.01.",
        "00000000000000000000000177.1",
    ] {
        assert_eq!(refusal(text), HostError::LegacyAddress { meaning: loopback }, "{text}");
    }
    assert_eq!(refusal("0"), HostError::LegacyAddress { meaning: Ipv4Addr::UNSPECIFIED });
    assert_eq!(refusal("0x"), HostError::LegacyAddress { meaning: Ipv4Addr::UNSPECIFIED });
    assert_eq!(refusal("4294967295"), HostError::LegacyAddress { meaning: Ipv4Addr::BROADCAST });
}

#[test]
fn numbers_that_are_not_addresses_are_not_names_either() {
    for text in [
        "1.2.3.256",
        "foo.0x1",
        "example.1",
        "4294967296",
        "1.2.3.4.5",
        "256.1",
        "08.0.0.1",
        "1.2.3.09",
        "99999999999999999999999",
        "[1.2.3.4]",
        "[::1",
        "::1]",
        "[[::1]]",
        "[::1].",
        ":::",
        "1:2:3:4:5:6:7:8:9",
        "[example.com]",
        "a:80:90",
    ] {
        assert_eq!(refusal(text), HostError::BadAddress, "{text}");
    }
}

#[test]
fn each_mistake_has_its_own_error() {
    let forbidden = |character| HostError::ForbiddenCharacter { character };
    for (text, expected) in [
        ("", HostError::Empty),
        (".", HostError::EmptyLabel),
        (".example.com", HostError::EmptyLabel),
        ("a..b", HostError::EmptyLabel),
        ("example.com..", HostError::EmptyLabel),
        ("-a.example", HostError::Hyphen),
        ("a-.example", HostError::Hyphen),
        ("evil\0.allowed", HostError::ControlByte { character: '\0' }),
        ("a\r\nb", HostError::ControlByte { character: '\r' }),
        ("a\tb", HostError::ControlByte { character: '\t' }),
        ("a\u{7f}b", HostError::ControlByte { character: '\u{7f}' }),
        ("a\u{85}b", HostError::ControlByte { character: '\u{85}' }),
        ("a b", HostError::Whitespace { character: ' ' }),
        ("a\u{a0}b", HostError::Whitespace { character: '\u{a0}' }),
        ("a%00b", HostError::Percent),
        ("a%2eb", HostError::Percent),
        ("::1%25x.allowed", HostError::ZoneId),
        ("[fe80::1%eth0]", HostError::ZoneId),
        ("a_b.example", forbidden('_')),
        ("*.example", forbidden('*')),
        ("example.com:443", forbidden(':')),
        ("a,b", forbidden(',')),
        ("allowed@evil", HostError::Userinfo),
        ("evil#allowed", HostError::Path { host: None }),
        ("evil?allowed", HostError::Path { host: None }),
        ("evil\\allowed", HostError::Path { host: None }),
        ("evil/allowed", HostError::Path { host: Some("evil".into()) }),
        ("xn--example-.com", HostError::Hyphen),
        ("xn--example.com", HostError::Idna),
        ("xn--a.example", HostError::Idna),
    ] {
        assert_eq!(refusal(text), expected, "{text:?}");
    }
    assert_eq!(Host::parse_bytes(b"a\xff"), Err(HostError::NotText));
}

#[test]
fn names_that_software_would_rewrite_are_refused() {
    for (text, meaning) in [
        ("example\u{3002}com", "example.com"),
        ("example\u{ff0e}com", "example.com"),
        ("example\u{ff61}com", "example.com"),
        ("exam\u{ad}ple.com", "example.com"),
        ("faceboo\u{212a}.com", "facebook.com"),
        ("ｅxample.com", "example.com"),
        ("bu\u{308}cher.example", "xn--bcher-kva.example"),
        ("büc\u{200b}her.example", "xn--bcher-kva.example"),
        ("\u{212a}üche.example", "xn--kche-0ra.example"),
    ] {
        assert_eq!(refusal(text), HostError::Ambiguous { meaning: meaning.into() }, "{text:?}");
    }
    assert_eq!(refusal("１２７.0.0.1"), HostError::BadAddress);
    assert_eq!(refusal("127.0.0.１"), HostError::Ambiguous { meaning: "127.0.0.1".into() });
}

#[test]
fn lengths_are_bounded_by_label_and_by_name() {
    let longest_label = "a".repeat(63);
    assert_eq!(canonical(&longest_label), longest_label);
    assert_eq!(refusal(&"a".repeat(64)), HostError::LabelTooLong);
    let longest = format!("{0}.{0}.{0}.{1}", longest_label, "b".repeat(61));
    assert_eq!(longest.len(), 253);
    assert_eq!(canonical(&longest), longest);
    assert_eq!(canonical(&format!("{longest}.")), longest);
    assert_eq!(refusal(&format!("{longest}b")), HostError::TooLong);
    assert_eq!(refusal(&"a.".repeat(5000)), HostError::TooLong);
}

#[test]
fn ports_are_plain_decimal_numbers() {
    let host = |text: &str| Host::parse(text).unwrap();
    for (text, expected, port) in [
        ("example.com", "example.com", None),
        ("example.com:443", "example.com", Some(443)),
        ("1.2.3.4:80", "1.2.3.4", Some(80)),
        ("[::1]:65535", "::1", Some(65535)),
        ("[::1]", "::1", None),
        ("::1", "::1", None),
    ] {
        assert_eq!(parse_host_port(text), Ok((host(expected), port)), "{text}");
    }
    for text in ["a:", "a:0", "a:+80", "a:080", "a:65536", "a:100000", "a:x", "a:8o", "[::1]:"] {
        assert_eq!(parse_host_port(text), Err(HostError::BadPort), "{text}");
    }
    assert_eq!(parse_host_port("[::1]443"), Err(HostError::BadAddress));
    assert_eq!(parse_host_port(":443"), Err(HostError::Empty));
    assert_eq!(parse_host_port("allowed:443@evil"), Err(HostError::Userinfo));
    assert_eq!(split_port("*.example.com:443"), Ok(("*.example.com", Some(443))));
}

#[test]
fn remedy_for_a_url_names_its_host() {
    for text in ["https://example.com/x?y", "http://EXAMPLE.com:80", "example.com/x"] {
        let error = parse_host_port(text).unwrap_err();
        assert_eq!(error.remedy(), "write only the host: `example.com`", "{text}");
    }
    assert_eq!(refusal("https://example.com").to_string(), "is a URL, not a host name");
    assert_eq!(refusal("https://allowed@evil"), HostError::Scheme { host: None });
}

#[test]
fn remedies_name_the_correct_spelling() {
    assert_eq!(refusal("0x7f.1").remedy(), "write `127.0.0.1`");
    assert!(refusal("a_b").remedy().contains("underscores"));
    assert!(refusal("example\u{3002}com").remedy().contains("`example.com`"));
    assert_eq!(refusal("a\u{1b}b").to_string(), "contains the control character U+001B");
}

#[test]
fn hosts_serialize_as_text() {
    let host = Host::parse("[::1]").unwrap();
    assert_eq!(serde_json::to_string(&host).unwrap(), "\"[::1]\"");
}

proptest! {
    #[test]
    fn printed_host_parses_to_the_same_host(text in "[a-zA-Z0-9ü例ßKſ.:\\[\\]x-]{1,40}") {
        if let Ok(host) = Host::parse(&text) {
            prop_assert_eq!(Host::parse(&host.to_string()), Ok(host));
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_names_stay_in_the_alphabet(
        bytes in proptest::collection::vec(any::<u8>(), 0..300)
    ) {
        if let Ok(Host::Name(name)) = Host::parse_bytes(&bytes) {
            let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-');
            prop_assert!(name.as_str().bytes().all(plain));
        }
    }

    #[test]
    fn arbitrary_text_never_panics_and_names_stay_in_the_alphabet(text in "\\PC{0,60}") {
        let _ = parse_host_port(&text);
        if let Ok(Host::Name(name)) = Host::parse(&text) {
            let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-');
            prop_assert!(name.as_str().bytes().all(plain));
            prop_assert_eq!(Host::parse(name.as_str()), Ok(Host::Name(name)));
        }
    }

    #[test]
    fn case_and_one_trailing_dot_change_nothing(
        name in "([a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?\\.){0,3}[a-z][a-z0-9]{0,8}"
    ) {
        let host = Host::parse(&name);
        prop_assert_eq!(Host::parse(&name.to_uppercase()), host.clone());
        prop_assert_eq!(Host::parse(&format!("{name}.")), host);
    }
}
