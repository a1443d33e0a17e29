use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use zeroize::Zeroizing;

use super::super::Screen;
use super::super::needles::of_values;

/// A value with every kind of character that an encoding changes.
const VALUE: &str = r#"sk-A1 b/c+d&e=f<g>h'i"j!k*l(m)n%o\p~q:r_s.t"#;

fn redactor(values: &[&str]) -> Screen {
    let values: Vec<_> =
        values.iter().map(|value| Arc::new(Zeroizing::new((*value).to_owned()))).collect();
    Screen::redacting(Arc::new(of_values(&values, &[])))
}

fn redacted(values: &[&str], text: &str, size: usize) -> String {
    let mut redactor = redactor(values);
    let mut seen = Vec::new();
    for part in text.as_bytes().chunks(size) {
        seen.extend(redactor.pass(part).unwrap());
    }
    seen.extend(redactor.finish());
    assert_eq!(seen.len(), text.len(), "redacting keeps the length");
    String::from_utf8(seen).unwrap()
}

fn each(value: &str, escape: impl Fn(char) -> String) -> String {
    value.chars().map(escape).collect()
}

fn percent(keeps: &str) -> String {
    each(VALUE, |c| match c {
        c if c.is_ascii_alphanumeric() || "-_.~".contains(c) || keeps.contains(c) => c.to_string(),
        c => format!("%{:02X}", c as u32),
    })
}

fn json(escape: impl Fn(char) -> Option<String>) -> String {
    each(VALUE, |c| match c {
        '"' | '\\' => format!("\\{c}"),
        c => escape(c).unwrap_or_else(|| c.to_string()),
    })
}

fn html(escapes: &[(char, &str)]) -> String {
    let named = |c| escapes.iter().find(|(one, _)| *one == c).map(|(_, name)| (*name).to_owned());
    each(VALUE, |c| named(c).unwrap_or_else(|| c.to_string()))
}

/// What the common encoders make of the value.
fn encoded() -> Vec<(&'static str, String)> {
    let unicode = |c: char| format!("\\u{:04x}", c as u32);
    let go = |c: char| "<>&".contains(c).then(|| unicode(c));
    let slash = |c: char| (c == '/').then(|| "\\/".to_owned());
    let python = [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;"), ('\'', "&#x27;")];
    let go_html = [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&#34;"), ('\'', "&#39;")];
    vec![
        ("as it is", VALUE.to_owned()),
        ("lower case", VALUE.to_ascii_lowercase()),
        ("encodeURIComponent of JavaScript", percent("!*'()")),
        ("quote of Python", percent("/")),
        ("quote_plus of Python", percent(" ").replace(' ', "+")),
        ("URLs with lower-case digits", percent("").replace("%2F", "%2f").replace("%3C", "%3c")),
        ("every character as %XX", each(VALUE, |c| format!("%{:02X}", c as u32))),
        ("every character as %xx", each(VALUE, |c| format!("%{:02x}", c as u32))),
        ("JSON", json(|_| None)),
        ("JSON of Go", json(go)),
        ("JSON of PHP", json(slash)),
        ("JSON with every character as \\u00XX", each(VALUE, |c| format!("\\u{:04X}", c as u32))),
        ("JSON with every character as \\u00xx", each(VALUE, unicode)),
        ("HTML of Python", html(&python)),
        ("HTML of Go", html(&go_html)),
        ("HTML with names", html(&[('/', "&sol;"), ('+', "&plus;"), ('=', "&equals;")])),
        ("HTML with decimal references", each(VALUE, |c| format!("&#{};", c as u32))),
        ("HTML with hexadecimal references", each(VALUE, |c| format!("&#x{:X};", c as u32))),
        ("lower-case hexadecimal", each(VALUE, |c| format!("{:02x}", c as u32))),
        ("upper-case hexadecimal", each(VALUE, |c| format!("{:02X}", c as u32))),
    ]
}

#[test]
fn value_is_redacted_as_every_common_encoder_writes_it_in_any_segmentation() {
    for (encoder, form) in encoded() {
        for size in [1, 2, 3, 7, 4096] {
            let text = format!("{{\"key\": [{form}], \"next\": 1}}");
            let stars = "*".repeat(form.len());
            let expected = format!("{{\"key\": [{stars}], \"next\": 1}}");
            assert_eq!(redacted(&[VALUE], &text, size), expected, "{encoder}, {size}");
        }
    }
}

#[test]
fn value_within_base64_is_redacted_with_and_without_line_breaks() {
    for before in ["", "a", "ab", "a longer text of which the value is only a part, user:"] {
        let text = format!("{before}{VALUE} and what follows it");
        for whole in [STANDARD.encode(&text), URL_SAFE.encode(&text)] {
            for line_end in ["", "\n", "\r\n", "\\n", "\\r\\n"] {
                for columns in [16, 60, 64, 76] {
                    let lines: Vec<&str> = whole
                        .as_bytes()
                        .chunks(columns)
                        .map(|line| std::str::from_utf8(line).unwrap())
                        .collect();
                    let text = lines.join(line_end);
                    for size in [1, 5, 4096] {
                        let seen = redacted(&[VALUE], &text, size);
                        let stars = seen.matches('*').count();
                        let least = VALUE.len() * 8 / 6 - 2;
                        assert!(stars >= least, "{before} {line_end:?} {columns} {size}: {seen}");
                    }
                }
            }
        }
    }
}

#[test]
fn line_ends_within_a_value_stay() {
    let wrapped = format!("a: {}\r\n{}\r\n", &VALUE[..9], &VALUE[9..]);
    let seen = redacted(&[VALUE], &wrapped, 4096);
    assert_eq!(seen, format!("a: {}\r\n{}\r\n", "*".repeat(9), "*".repeat(VALUE.len() - 9)));
}

#[test]
fn other_text_with_escapes_passes_unchanged_in_any_segmentation() {
    let text = "100% of %zz &c. AT&T &nosuch; &#xzz; \\q \\u00zz \\\\ &amp; \r\n\r\n\r\n %41 \\";
    for size in [1, 2, 5, 4096] {
        assert_eq!(redacted(&[VALUE], text, size), text);
    }
}

#[test]
fn value_that_begins_as_a_shorter_one_is_redacted_whole_in_any_segmentation() {
    let (short, long) = ("sk-0123456789", "sk-0123456789-and-more");
    for size in [1, 13, 4096] {
        let seen = redacted(&[short, long], &format!("{long}. {short}"), size);
        assert_eq!(seen, format!("{}. {}", "*".repeat(long.len()), "*".repeat(short.len())));
    }
}

#[test]
fn what_is_held_is_bounded_whatever_a_server_sends() {
    let mut redactor = redactor(&[VALUE]);
    let endless = ["\n", "&#0", "\\", "%", "&#x", "sk-\n", "\\u"];
    for part in endless {
        let (mut given, mut passed) = (0, 0);
        for _ in 0..20_000 {
            given += part.len();
            passed += redactor.pass(part.as_bytes()).unwrap().len();
        }
        passed += redactor.pass(b"#").unwrap().len();
        assert!(given - passed.min(given) < 64, "{part:?} {given} {passed}");
        redactor.finish();
    }
}
