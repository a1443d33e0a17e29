use proptest::prelude::*;
use serde_json::json;

use super::*;

const BOUNDS: Bounds = Bounds { bytes: 1 << 20, depth: 64 };

fn refused(text: impl AsRef<[u8]>) -> String {
    read(text.as_ref(), BOUNDS).unwrap_err().to_string()
}

#[test]
fn ordinary_values_are_parsed_in_written_order() {
    let text =
        r#" {"b": [1, -2, 1.5, 1e300], "a": {"x": null}, "s": "\ud83d\ude00\u0000", "t": true} "#;
    let value = read(text.as_bytes(), BOUNDS).unwrap();
    let expected = json!({"b": [1, -2, 1.5, 1e300], "a": {"x": null}, "s": "😀\u{0}", "t": true});
    assert_eq!(value, expected);
    assert_eq!(serde_json::to_string(&value).unwrap(), serde_json::to_string(&expected).unwrap());
}

#[test]
fn duplicate_keys_are_refused_at_any_level() {
    assert!(refused(r#"{"a":1,"a":1}"#).contains("the key `a` occurs twice"));
    assert!(refused(r#"[{"x":{"b":1,"\u0062":2}}]"#).contains("the key `b` occurs twice"));
    let terminal = refused("{\"\\u001b[2J\":1,\"\\u001b[2J\":1}");
    assert!(!terminal.contains('\u{1b}'), "{terminal:?}");
}

#[test]
fn ambiguous_json_is_refused() {
    for text in [
        "NaN",
        "[NaN]",
        "Infinity",
        "-Infinity",
        "1e999",
        "-1e999",
        "01",
        "+1",
        ".5",
        "1.",
        "0x10",
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800\ud800""#,
        r#"{"\ud800":1}"#,
        "\"\n\"",
        "'a'",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "// x\n1",
        "1 2",
        "{} {}",
        "",
        " ",
        "\u{feff}1",
        "nul",
    ] {
        let message = refused(text);
        assert!(message.starts_with("is not JSON: "), "{text:?}: {message}");
    }
    for bytes in [&b"\"\xff\""[..], b"\"\xed\xa0\x80\"", b"\"\xc0\x80\"", b"\xff", b"{\"\xff\":1}"]
    {
        assert!(refused(bytes).starts_with("is not JSON: "), "{bytes:?}");
    }
}

#[test]
fn numbers_that_would_change_are_refused_and_exact_ones_are_kept() {
    for text in [
        "18446744073709551616",
        "18446744073709551617",
        "20000000000000000000",
        "-9223372036854775809",
        "-18446744073709551616",
        "123456789012345678901234567890",
        "18446744073709551617.0",
        "1.8446744073709551617e19",
        "9007199254740993.0",
        "9007199254740993.5",
        "1.00000000000000000001",
        "0.99999999999999999999999",
        "1e-400",
        "-1e-99999999999999999999999",
        "1E400",
        "[{\"a\":18446744073709551616}]",
    ] {
        let message = refused(text);
        let is_reported = message.contains("another number") || message.contains("out of range");
        assert!(is_reported && message.starts_with("is not JSON: "), "{text}: {message}");
    }
    for (text, written) in [
        ("18446744073709551615", "18446744073709551615"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("9007199254740993", "9007199254740993"),
        ("1.0", "1.0"),
        ("1e2", "100.0"),
        ("1e300", "1e+300"),
        ("100e18", "1e+20"),
        ("0.00100e3", "1.0"),
        ("-0", "-0.0"),
        ("0e99999999999999999999", "0.0"),
        ("0.1", "0.1"),
        ("3.14159265358979323846", "3.141592653589793"),
    ] {
        assert_eq!(read(text.as_bytes(), BOUNDS).unwrap().to_string(), written, "{text}");
    }
}

#[test]
fn ten_thousand_levels_are_refused_without_recursion() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
        let text = open.repeat(10_000) + "1" + &close.repeat(10_000);
        assert_eq!(refused(&text), "is nested more than 64 levels deep");
        // A bound that is exceeded while reading needs no end of the text.
        assert_eq!(refused(open.repeat(100_000)), "is nested more than 64 levels deep");
    }
}

#[test]
fn deepest_allowed_value_is_parsed_on_a_small_stack() {
    let bounds = Bounds { bytes: 1 << 20, depth: 513 };
    let text = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let deepest = move || {
        let value = read(text(513).as_bytes(), bounds).unwrap();
        assert_eq!(measure(&value, bounds), Ok(1026));
        let shallower = Bounds { depth: 512, ..bounds };
        assert_eq!(measure(&value, shallower), Err(JsonError::TooDeep { most: 512 }));
        assert_eq!(read(text(514).as_bytes(), bounds), Err(JsonError::TooDeep { most: 513 }));
    };
    std::thread::Builder::new().stack_size(512 << 10).spawn(deepest).unwrap().join().unwrap();
}

#[test]
fn oversized_text_is_refused_before_parsing() {
    let text = format!("\"{}\"", "x".repeat(10 << 20));
    assert_eq!(refused(&text), "has more than 1048576 bytes");
    let value = Value::String("x".repeat(10 << 20));
    assert_eq!(measure(&value, BOUNDS), Err(JsonError::TooLarge { most: 1 << 20 }));
    assert_eq!(measure(&json!({"a": [1]}), Bounds { bytes: 9, depth: 2 }), Ok(9));
    assert!(measure(&json!({"a": [1]}), Bounds { bytes: 8, depth: 2 }).is_err());
}

proptest! {
    /// The parsed value equals the written one, and no input makes the parser panic.
    #[test]
    fn number_survives_a_round_trip(number in any::<f64>().prop_filter("JSON has no others", |n| n.is_finite())) {
        let text = serde_json::to_string(&number).unwrap();
        let value = read(text.as_bytes(), BOUNDS).unwrap();
        prop_assert_eq!(value.as_f64().unwrap().to_bits(), number.to_bits());
    }

    #[test]
    fn parsing_is_the_inverse_of_writing(text in ".{0,64}", numbers in prop::collection::vec(any::<i64>(), 0..8)) {
        let value = json!({"text": text, "numbers": numbers, &text: null});
        let written = serde_json::to_vec(&value).unwrap();
        prop_assert_eq!(measure(&value, BOUNDS), Ok(written.len()));
        prop_assert_eq!(read(&written, BOUNDS).unwrap(), value);
    }

    #[test]
    fn any_bytes_parse_as_in_serde_json_except_for_keys_and_numbers(
        bytes in prop::collection::vec(prop::sample::select(b"[]{}:,\"\\u0d8a1e-. nultr\xff".to_vec()), 0..48)
    ) {
        let ours = read(&bytes, BOUNDS);
        match serde_json::from_slice::<Value>(&bytes) {
            Ok(value) => {
                let ours_only = ["occurs twice", "another number"];
                let is_ours = matches!(&ours, Err(error)
                    if ours_only.iter().any(|why| error.to_string().contains(why)));
                prop_assert!(is_ours || ours.as_ref() == Ok(&value), "{:?}", ours);
            }
            Err(_) => prop_assert!(ours.is_err()),
        }
    }
}
