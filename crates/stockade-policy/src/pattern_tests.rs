use proptest::prelude::*;

use super::*;
use crate::{HostError, NetworkError};

fn allowed(text: &str) -> HostPattern {
    HostPattern::parse_allowed(text).unwrap_or_else(|error| panic!("{text} {error}"))
}

fn blocked(text: &str) -> BlockPattern {
    BlockPattern::parse(text).unwrap_or_else(|error| panic!("{text} {error}"))
}

fn host(text: &str) -> Host {
    Host::parse(text).unwrap()
}

fn suffix(text: &str) -> PatternError {
    match Host::parse(text) {
        Ok(Host::Name(suffix)) => PatternError::PublicSuffix { suffix },
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_wildcard_matches_only_whole_labels_below() {
    for (pattern, text, expected) in [
        ("*.example.com", "a.example.com", true),
        ("*.example.com", "a.b.example.com", true),
        ("*.example.com", "A.EXAMPLE.COM.", true),
        ("*.example.com", "example.com", false),
        ("*.example.com", "evilexample.com", false),
        ("*.example.com", "example.com.evil", false),
        ("*.example.com", "a.example.com.evil", false),
        ("*.example.com", "1.2.3.4", false),
        ("*.example.com", "[::1]", false),
        ("*.EXAMPLE.com.", "a.example.com", true),
        ("example.com", "example.com", true),
        ("example.com", "EXAMPLE.com.", true),
        ("example.com", "a.example.com", false),
        ("example.com", "evilexample.com", false),
        ("*.bücher.example", "a.xn--bcher-kva.example", true),
        ("10.0.0.1", "10.0.0.1", true),
        ("10.0.0.1", "10.0.0.2", false),
        ("10.0.0.1", "[::ffff:10.0.0.1]", false),
        ("[2001:db8::1]", "2001:db8:0::1", true),
    ] {
        assert_eq!(allowed(pattern).matches(&host(text)), expected, "{pattern} on {text}");
    }
}

#[test]
fn wildcards_that_match_too_much_are_refused() {
    for (text, error) in [
        ("*", PatternError::BareWildcard),
        ("*.", PatternError::BareWildcard),
        ("*.*.x", PatternError::MisplacedWildcard),
        ("a.*.b", PatternError::MisplacedWildcard),
        ("*a.b", PatternError::MisplacedWildcard),
        ("a*.b", PatternError::MisplacedWildcard),
        ("**.b", PatternError::MisplacedWildcard),
        ("example.*", PatternError::MisplacedWildcard),
        ("*.1.2.3.4", PatternError::WildcardAddress),
        ("*.[::1]", PatternError::WildcardAddress),
        ("*.com", suffix("com")),
        ("*.co.uk", suffix("co.uk")),
        ("*.github.io", suffix("github.io")),
        ("*.s3.amazonaws.com", suffix("s3.amazonaws.com")),
        ("*.compute.amazonaws.com", suffix("compute.amazonaws.com")),
        ("*.ck", suffix("ck")),
        ("*.internal", suffix("internal")),
        ("*.公司.cn", suffix("公司.cn")),
        ("*.xn--55qx5d.cn", suffix("公司.cn")),
        ("*..", PatternError::Host { source: HostError::EmptyLabel }),
        ("*.0x7f.1", PatternError::Host { source: host_error("0x7f.1") }),
        ("169.254.169.254", PatternError::Metadata),
        ("[::ffff:169.254.169.254]", PatternError::Metadata),
        ("[fd00:ec2::254]", PatternError::Metadata),
        ("metadata.google.internal", PatternError::Metadata),
        ("Metadata.Google.Internal.", PatternError::Metadata),
        ("localhost", PatternError::OwnName),
        ("db.LOCALHOST.", PatternError::OwnName),
        ("*.localhost", PatternError::OwnName),
        ("10.0.0.0/8", PatternError::Range),
        ("10.0/8", PatternError::Range),
        ("2001:db8::/32", PatternError::Range),
        ("example.com:443", PatternError::Host { source: host_error("a:443") }),
    ] {
        assert_eq!(HostPattern::parse_allowed(text), Err(error), "{text}");
    }
    let error = HostPattern::parse_allowed("*.co.uk").unwrap_err();
    assert_eq!(error.remedy(), "name the domain you mean, such as `*.example.co.uk`");
    let error = HostPattern::parse_allowed("https://example.com/24").unwrap_err();
    assert_eq!(error.remedy(), "write only the host: `example.com`");
}

fn host_error(text: &str) -> HostError {
    Host::parse(text).unwrap_err()
}

#[test]
fn wildcards_over_a_registered_domain_are_accepted() {
    for text in ["*.github.com", "*.example.co.uk", "*.me.github.io", "*.corp.internal"] {
        assert_eq!(allowed(text).to_string(), text);
    }
}

#[test]
fn blocklist_accepts_wide_patterns() {
    for text in ["*.com", "*.internal", "169.254.169.254", "metadata.google.internal"] {
        assert_eq!(blocked(text).to_string(), text);
    }
    assert_eq!(BlockPattern::parse("*"), Err(PatternError::BareWildcard));
    assert_eq!(
        BlockPattern::parse("10.0/8"),
        Err(PatternError::Network { source: NetworkError::BadAddress })
    );
    assert_eq!(BlockPattern::parse("10.0.0.9/8").unwrap_err().remedy(), "write `10.0.0.0/8`");
    assert_eq!(HostPattern::parse_blocked("10.0.0.0/8"), Err(PatternError::Range));
}

#[test]
fn a_blocked_address_is_blocked_in_every_encoding() {
    for pattern in ["10.0.0.1", "10.0.0.0/8", "[::ffff:10.0.0.1]"] {
        for text in ["10.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::"] {
            let pattern = blocked(pattern);
            assert!(pattern.matches_address(text.parse().unwrap()), "{pattern} on {text}");
            assert!(pattern.matches_host(&host(text)), "{pattern} on {text}");
        }
        assert!(!blocked(pattern).matches_address("11.0.0.1".parse().unwrap()));
        assert!(!blocked(pattern).matches_host(&host("example.com")));
    }
    assert!(blocked("*.example.com").matches_host(&host("a.example.com")));
    assert!(!blocked("*.example.com").matches_address("10.0.0.1".parse().unwrap()));
}

#[test]
fn the_more_specific_pattern_sorts_higher() {
    let key = |text: &str| HostPattern::parse_blocked(text).unwrap().specificity();
    assert!(key("a.io") > key("*.very-long-name.example.com"));
    assert!(key("*.b.example.com") > key("*.example.com"));
}

#[test]
fn patterns_serialize_as_text() {
    let lists = (allowed("*.Example.com"), blocked("10.0.0.0/8"));
    assert_eq!(serde_json::to_string(&lists).unwrap(), "[\"*.example.com\",\"10.0.0.0/8\"]");
}

fn any_pattern() -> impl Strategy<Value = HostPattern> {
    "(\\*\\.)?([ab]\\.){0,3}[ab]".prop_map(|text| HostPattern::parse_blocked(&text).unwrap())
}

fn any_host() -> impl Strategy<Value = Host> {
    "([ab]\\.){0,4}[ab]".prop_map(|text| host(&text))
}

proptest! {
    #[test]
    fn intersecting_is_matching_both(one in any_pattern(), two in any_pattern(), host in any_host()) {
        let both = one.matches(&host) && two.matches(&host);
        let met = one.intersect(&two).is_some_and(|pattern| pattern.matches(&host));
        prop_assert_eq!(met, both);
        prop_assert_eq!(one.intersect(&two), two.intersect(&one));
    }

    #[test]
    fn covering_means_every_match_is_shared(one in any_pattern(), two in any_pattern(), host in any_host()) {
        if one.covers(&two) && two.matches(&host) {
            prop_assert!(one.matches(&host));
        }
        prop_assert!(one.covers(&one));
    }

    #[test]
    fn printed_pattern_parses_to_the_same_pattern(pattern in any_pattern()) {
        prop_assert_eq!(HostPattern::parse_blocked(&pattern.to_string()), Ok(pattern));
    }

    #[test]
    fn arbitrary_text_never_panics(text in "[*.a:/0-9\\[\\]]{0,20}|\\PC{0,30}") {
        let _ = HostPattern::parse_allowed(&text);
        let _ = BlockPattern::parse(&text);
    }
}
