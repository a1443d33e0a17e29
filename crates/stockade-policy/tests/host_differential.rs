//! Compares our host parser with a browser's.
//!
//! The `url` crate implements the WHATWG URL standard. It must accept what we accept, as the same
//! host; what only it accepts must fall into one of the classes below.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use stockade_policy::{Host, HostError};

use self::Class::*;
use self::Verdict::*;

/// Why we refuse what a browser accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Punctuation that no DNS host name contains.
    Punctuation,
    /// Percent escapes, which a browser decodes first.
    Escape,
    /// Octal, hexadecimal, short and whole-number addresses.
    OldAddress,
    /// Text that a browser converts into another name.
    Rewritten,
    /// Names and labels that are too long for the DNS.
    Length,
    /// Empty labels.
    EmptyLabel,
    /// Labels with a hyphen at an edge.
    Hyphen,
    /// Non-ASCII digits in an address.
    ForeignDigits,
    /// Non-ASCII text that maps to punctuation or to a hyphen at an edge.
    Profile,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Both accept, as the same host.
    Same,
    /// Both refuse.
    Neither,
    /// A browser accepts, we refuse.
    Stricter(Class),
}

const TABLE: &[(&str, Verdict)] = &[
    ("example.com", Same),
    ("EXAMPLE.com", Same),
    ("eXaMpLe.CoM", Same),
    ("example.com.", Same),
    ("EXAMPLE.COM.", Same),
    ("example.com..", Stricter(EmptyLabel)),
    (".example.com", Stricter(EmptyLabel)),
    (".", Stricter(EmptyLabel)),
    ("..", Stricter(EmptyLabel)),
    ("a..b", Stricter(EmptyLabel)),
    ("", Neither),
    ("a", Same),
    ("localhost", Same),
    ("a-b.c--d.e", Same),
    ("r3---sn-x.googlevideo.com", Same),
    ("ab--cd.example", Same),
    ("-a.example", Stricter(Hyphen)),
    ("a-.example", Stricter(Hyphen)),
    ("a.-", Stricter(Hyphen)),
    ("a_b.example", Stricter(Punctuation)),
    ("_dmarc.example", Stricter(Punctuation)),
    ("*.example.com", Stricter(Punctuation)),
    ("a!b", Stricter(Punctuation)),
    ("a$b", Stricter(Punctuation)),
    ("a&b", Stricter(Punctuation)),
    ("a'b", Stricter(Punctuation)),
    ("a(b)", Stricter(Punctuation)),
    ("a+b", Stricter(Punctuation)),
    ("a,b", Stricter(Punctuation)),
    ("a;b", Stricter(Punctuation)),
    ("a=b", Stricter(Punctuation)),
    ("a~b", Stricter(Punctuation)),
    ("a\"b", Stricter(Punctuation)),
    ("a`b", Stricter(Punctuation)),
    ("a{b}", Stricter(Punctuation)),
    ("a<b", Neither),
    ("a>b", Neither),
    ("a^b", Neither),
    ("a|b", Neither),
    ("a b", Neither),
    (" example.com", Neither),
    ("example.com ", Neither),
    ("a\tb", Neither),
    ("a\rb", Neither),
    ("a\nb", Neither),
    ("example.com\n", Neither),
    ("evil\0.allowed", Neither),
    ("allowed\0", Neither),
    ("a\u{7f}b", Neither),
    ("a\u{1b}[31mb", Neither),
    ("a\u{85}b", Neither),
    ("a\u{a0}b", Neither),
    ("a\u{3000}b", Neither),
    ("a\u{2028}b", Neither),
    ("evil%00.allowed", Neither),
    ("evil%2eallowed", Stricter(Escape)),
    ("%65vil.example", Stricter(Escape)),
    ("evil%2Fallowed", Neither),
    ("%31%32%37.0.0.1", Stricter(Escape)),
    ("::1%25x.allowed", Neither),
    ("[::1%25x]", Neither),
    ("[fe80::1%eth0]", Neither),
    ("example\u{3002}com", Stricter(Rewritten)),
    ("example\u{ff0e}com", Stricter(Rewritten)),
    ("example\u{ff61}com", Stricter(Rewritten)),
    ("127\u{3002}0\u{3002}0\u{3002}1", Stricter(Rewritten)),
    ("xn--example-", Neither),
    ("xn--example-.com", Neither),
    ("xn--example.com", Neither),
    ("xn--", Neither),
    ("xn--a", Neither),
    ("xn--bcher-kva.example", Same),
    ("XN--Bcher-KVA.example", Same),
    ("bücher.example", Same),
    ("BÜCHER.example", Same),
    ("faß.example", Same),
    ("例え.jp", Same),
    ("пример.испытание", Same),
    ("\u{430}pple.com", Same),
    ("bu\u{308}cher.example", Stricter(Rewritten)),
    ("exam\u{ad}ple.com", Stricter(Rewritten)),
    ("exam\u{200b}ple.com", Stricter(Rewritten)),
    ("exam\u{2060}ple.com", Stricter(Rewritten)),
    ("exam\u{feff}ple.com", Stricter(Rewritten)),
    ("a\u{200d}b.com", Neither),
    ("\u{212a}elvin.example", Stricter(Rewritten)),
    ("\u{212a}üche.example", Stricter(Rewritten)),
    ("\u{17f}ystem.example", Stricter(Rewritten)),
    ("\u{130}.example", Stricter(Rewritten)),
    ("ｅｘａｍｐｌｅ.com", Stricter(Rewritten)),
    ("ﬁle.example", Stricter(Rewritten)),
    ("①.example", Stricter(Rewritten)),
    ("℀.example", Neither),
    ("☃.example", Same),
    ("１２７.0.0.1", Stricter(ForeignDigits)),
    ("127.0.0.１", Stricter(Rewritten)),
    ("127.0.0.1", Same),
    ("127.0.0.1.", Same),
    ("0.0.0.0", Same),
    ("255.255.255.255", Same),
    ("127.0.0.1..", Stricter(EmptyLabel)),
    ("0x7f.1", Stricter(OldAddress)),
    ("0X7F.1", Stricter(OldAddress)),
    ("0x7f000001", Stricter(OldAddress)),
    ("2130706433", Stricter(OldAddress)),
    ("0177.0.0.1", Stricter(OldAddress)),
    ("0177.0.0.1.", Stricter(OldAddress)),
    ("127.1", Stricter(OldAddress)),
    ("127.0.1", Stricter(OldAddress)),
    ("127.0.0.01", Stricter(OldAddress)),
    ("127.0.0.0x1", Stricter(OldAddress)),
    ("0", Stricter(OldAddress)),
    ("0x", Stricter(OldAddress)),
    ("4294967295", Stricter(OldAddress)),
    ("4294967296", Neither),
    ("1.2.3.256", Neither),
    ("1.2.3.4.5", Neither),
    ("1.2.3.08", Neither),
    ("foo.0x1", Neither),
    ("example.1", Neither),
    ("1.2.3.4.example", Same),
    ("0x7f.1.example", Same),
    ("[::1]", Same),
    ("::1", Same),
    ("[::]", Same),
    ("[::ffff:127.0.0.1]", Same),
    ("[::127.0.0.1]", Same),
    ("[::ffff:7f00:1]", Same),
    ("64:ff9b::7f00:1", Same),
    ("2002:7f00:1::", Same),
    ("[2001:DB8::A]", Same),
    ("[0:0:0:0:0:0:0:1]", Same),
    ("[::ffff:127.0.0.01]", Neither),
    ("[::ffff:0x7f.1]", Neither),
    ("[::1", Neither),
    ("[1.2.3.4]", Neither),
    ("[::1].", Neither),
    ("[::1]a", Neither),
    ("[[::1]]", Neither),
    ("[1::2::3]", Neither),
    ("[12345::]", Neither),
    ("allowed@evil", Neither),
    ("allowed:443@evil", Neither),
    ("evil#allowed", Neither),
    ("evil?allowed", Neither),
    ("evil/allowed", Neither),
    ("evil\\allowed", Neither),
    ("https://evil", Neither),
    ("evil:443", Neither),
];

/// Pieces of names; random combinations give valid names and most kinds of invalid ones.
#[rustfmt::skip]
const FRAGMENTS: &[&str] = &[
    "a", "b", "Z", "9", "0", "x", ".", ".", ".", "-", "example", "com", "xn--", "bcher-kva", "ü",
    "ß", "例", "\u{430}", "\u{5d0}", "\u{627}", "\u{308}", "\u{ad}", "\u{200d}", "\u{3002}",
    "\u{212a}", "\u{130}", "\u{ff11}", "_", "%2e", " ",
];

#[test]
fn unusual_spellings_match_the_table() {
    for (text, expected) in TABLE {
        assert_eq!(compare(text), Ok(*expected), "{text:?}");
    }
}

#[test]
fn lengths_beyond_the_dns_are_refused() {
    let label = "a".repeat(63);
    let longest = format!("{label}.{label}.{label}.{}", "b".repeat(61));
    assert_eq!(compare(&label), Ok(Same));
    assert_eq!(compare(&longest), Ok(Same));
    assert_eq!(compare(&format!("{longest}.")), Ok(Same));
    assert_eq!(compare(&format!("{longest}b")), Ok(Stricter(Length)));
    assert_eq!(compare(&format!("{label}a")), Ok(Stricter(Length)));
}

#[test]
fn generated_names_are_read_alike() {
    let text = proptest::collection::vec(select(FRAGMENTS), 1..8);
    agree_on(text.prop_map(|parts| parts.concat()), 20_000, 2_000);
}

#[test]
fn generated_plain_names_are_read_alike() {
    agree_on("([a-zA-Z0-9-]{1,6}\\.){0,3}[a-zA-Z0-9]{1,5}\\.?", 10_000, 4_000);
}

#[test]
fn generated_numbers_are_read_alike() {
    let part = prop_oneof![
        "[0-9]{1,3}",
        "0[0-7]{1,4}",
        "0[xX][0-9a-fA-F]{0,8}",
        any::<u8>().prop_map(|byte| byte.to_string()),
        any::<u8>().prop_map(|byte| byte.to_string()),
        any::<u32>().prop_map(|number| number.to_string()),
    ];
    let parts = proptest::collection::vec(part, 1..6).prop_map(|parts| parts.join("."));
    let plain = any::<std::net::Ipv4Addr>().prop_map(|address| address.to_string());
    agree_on(prop_oneof![3 => parts, 1 => plain], 10_000, 2_000);
}

#[test]
fn generated_v6_addresses_are_read_alike() {
    let printed = any::<std::net::Ipv6Addr>().prop_map(|address| format!("[{address}]"));
    let soup = "\\[(([0-9a-fA-F]{0,5}:){2,8}([0-9a-f]{0,4}|[0-9]{1,3}(\\.[0-9]{1,3}){3}))\\]";
    let bare = "(([0-9a-f]{1,4}:){1,3}:([0-9a-f]{1,4}:){0,3}[0-9a-f]{1,4})";
    agree_on(prop_oneof![printed, soup.boxed(), bare.boxed()], 10_000, 4_000);
}

#[test]
fn generated_text_is_read_alike() {
    agree_on("\\PC{1,4}(\\.[a-z]{1,3})?", 20_000, 100);
}

/// Compares `cases` texts, of which both must accept at least `shared`.
fn agree_on(texts: impl Strategy<Value = String>, cases: u32, shared: u32) {
    let accepted = Cell::new(0);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let random = proptest::test_runner::TestRng::deterministic_rng(
        proptest::test_runner::RngAlgorithm::ChaCha,
    );
    let outcome = TestRunner::new_with_rng(config, random).run(&texts, |text| {
        match compare(&text) {
            Ok(Same) => accepted.set(accepted.get() + 1),
            Ok(Neither | Stricter(_)) => {}
            Err(difference) => return Err(TestCaseError::fail(difference)),
        }
        Ok(())
    });
    assert!(outcome.is_ok(), "{outcome:?}");
    assert!(accepted.get() >= shared, "both accept only {} of {cases}", accepted.get());
}

/// Parses the text with both parsers; an error is a disagreement that no class explains.
fn compare(text: &str) -> Result<Verdict, String> {
    // The standard writes IPv6 only in brackets; we also accept it without.
    let bracketed = match text.parse::<std::net::Ipv6Addr>() {
        Ok(_) => format!("[{text}]"),
        Err(_) => text.to_owned(),
    };
    match (Host::parse(text), url::Host::parse(&bracketed)) {
        (Ok(ours), Ok(theirs)) => {
            let printed = theirs.to_string();
            let same = match (&ours, &theirs) {
                (Host::Name(name), url::Host::Domain(domain)) => {
                    name.as_str() == domain.strip_suffix('.').unwrap_or(domain)
                }
                (Host::Address(address), url::Host::Ipv4(v4)) => address == v4,
                (Host::Address(address), url::Host::Ipv6(v6)) => address == v6,
                _ => false,
            };
            if same { Ok(Same) } else { Err(format!("{text:?} is {ours} here, there {printed}")) }
        }
        (Ok(ours), Err(error)) => Err(format!("{text:?} is {ours} here, there refused: {error}")),
        (Err(_), Err(_)) => Ok(Neither),
        (Err(error), Ok(theirs)) => class_of(text, &error, &theirs)
            .map(Stricter)
            .ok_or_else(|| format!("{text:?} is {theirs} there, here it {error}")),
    }
}

/// The class of a refusal, checked against the text and the browser's result.
fn class_of(text: &str, error: &HostError, theirs: &url::Host) -> Option<Class> {
    let printed = theirs.to_string();
    let plain = printed.strip_suffix('.').unwrap_or(&printed);
    let labels = || plain.split('.');
    let (class, holds) = match error {
        HostError::ForbiddenCharacter { character } => {
            (Punctuation, "_*!$&'()+,;=~\"`{}".contains(*character))
        }
        HostError::Percent => (Escape, text.contains('%')),
        HostError::LegacyAddress { meaning } => {
            (OldAddress, *theirs == url::Host::<String>::Ipv4(*meaning) && text.is_ascii())
        }
        HostError::Ambiguous { meaning } => {
            let dot = if text.ends_with('.') { "." } else { "" };
            let same = url::Host::parse(&format!("{meaning}{dot}")).as_ref() == Ok(theirs);
            (Rewritten, same && !text.is_ascii())
        }
        HostError::TooLong => (Length, plain.len() > 253),
        HostError::LabelTooLong => (Length, labels().any(|label| label.len() > 63)),
        HostError::EmptyLabel => (EmptyLabel, text.starts_with('.') || text.contains("..")),
        HostError::Hyphen => {
            (Hyphen, text.split('.').any(|label| label.starts_with('-') || label.ends_with('-')))
        }
        HostError::BadAddress => {
            (ForeignDigits, !text.is_ascii() && matches!(theirs, url::Host::Ipv4(_)))
        }
        HostError::Idna => {
            let (unicode, _) = idna::domain_to_unicode(plain);
            let sound = |label: &str| {
                let foreign = |letter: char| letter.is_ascii_punctuation() && letter != '-';
                !label.contains(foreign) && !label.starts_with('-') && !label.ends_with('-')
            };
            (Profile, !text.is_ascii() && !unicode.split('.').all(sound))
        }
        _ => return None,
    };
    holds.then_some(class)
}
