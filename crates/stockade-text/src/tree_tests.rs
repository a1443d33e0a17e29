use std::time::{Duration, Instant};

use super::*;
use crate::dialect::PLAIN;

const MAX_DEPTH: usize = PLAIN.max_depth;
const MAX_NODES: usize = PLAIN.max_nodes;

/// The shape of a text in a short notation: lists in `[]`, maps in `{}`, quoted text in `''`.
fn shape(node: &Node) -> String {
    match &node.kind {
        Kind::Scalar { text, quoted: true } => format!("'{text}'"),
        Kind::Scalar { text, quoted: false } => text.clone(),
        Kind::List(items) => {
            let parts: Vec<String> = items.iter().map(shape).collect();
            format!("[{}]", parts.join(" "))
        }
        Kind::Map(entries) => {
            let parts: Vec<String> = entries
                .iter()
                .map(|entry| format!("{}={}", entry.key, shape(&entry.value)))
                .collect();
            format!("{{{}}}", parts.join(" "))
        }
    }
}

fn parsed(text: &str) -> String {
    let mut report = Report::new("p", text, &PLAIN);
    let node = read(text, &mut report);
    let node = report.finish(node).unwrap_or_else(|error| panic!("{text:?}\n{error}"));
    shape(&node)
}

/// Line, column and message of the first mistake.
fn refused(text: &str) -> (usize, usize, String) {
    let mut report = Report::new("p", text, &PLAIN);
    let node = read(text, &mut report);
    let errors = report.finish(node.map(|node| shape(&node))).expect_err("the text is refused");
    let first = &errors.diagnostics()[0];
    assert!(!first.remedy.is_empty(), "{text:?}");
    (first.line, first.column, first.message.clone())
}

fn refused_at(text: &str, line: usize, column: usize, words: &str) {
    let (found_line, found_column, message) = refused(text);
    assert!(message.contains(words), "{text:?}: {message}");
    assert_eq!((found_line, found_column), (line, column), "{text:?}: {message}");
}

#[test]
fn block_and_flow_style_give_the_same_tree() {
    assert_eq!(parsed("a: 1\nb:\n  - x\n  - {c: \"y\"}\n"), "{a=1 b=[x {c='y'}]}");
    assert_eq!(parsed("{a: 1, b: [x, {c: 'y'}]}"), "{a=1 b=[x {c='y'}]}");
    assert_eq!(parsed("{\"a\": 1, \"b\": [\"x\"]}"), "{a=1 b=['x']}");
}

#[test]
fn block_scalars_are_text() {
    assert_eq!(parsed("a: |\n  one\n  two\nb: >-\n  one\n  two\n"), "{a='one\ntwo\n' b='one two'}");
}

#[test]
fn windows_line_ends_are_ordinary_line_ends() {
    assert_eq!(parsed("a: 1\r\nb:\r\n  - x\r\n"), "{a=1 b=[x]}");
    refused_at("a: 1\r\na: 2\r\n", 2, 1, "occurs twice");
}

#[test]
fn places_count_characters_from_one() {
    let text = "ü: 1\nlist:\n  - äöü: [x, yy]\n";
    let node = read(text, &mut Report::new("p", text, &PLAIN)).unwrap();
    let Kind::Map(entries) = &node.kind else { panic!("a map") };
    assert_eq!(entries[0].value.place, TextSpan { line: 1, column: 4, width: 1 });
    assert_eq!(entries[1].key_place, TextSpan { line: 2, column: 1, width: 4 });
    let Kind::List(items) = &entries[1].value.kind else { panic!("a list") };
    let Kind::Map(inner) = &items[0].kind else { panic!("a map") };
    assert_eq!(inner[0].key_place, TextSpan { line: 3, column: 5, width: 3 });
    let Kind::List(words) = &inner[0].value.kind else { panic!("a list") };
    assert_eq!(words[1].place, TextSpan { line: 3, column: 14, width: 2 });
}

#[test]
fn duplicate_keys_are_refused_at_the_second_one() {
    refused_at("a: 1\nb: 2\na: 3\n", 3, 1, "`a` occurs twice; first on line 1");
    refused_at("x:\n  y:\n    a: 1\n    a: 2\n", 4, 5, "first on line 3");
    refused_at("x: {a: 1, b: 2, a: 3}\n", 1, 17, "occurs twice");
    refused_at("x: [{a: 1, \"a\": 3}]\n", 1, 12, "occurs twice");
    refused_at("a: 1\n? a\n: 2\n", 2, 3, "occurs twice");
    assert_eq!(parsed("x: {a: 1}\ny: {a: 2}\n"), "{x={a=1} y={a=2}}");
}

#[test]
fn every_duplicate_key_is_reported() {
    let text = "a: 1\na: 2\nb: 1\nb: 2\n";
    let mut report = Report::new("p", text, &PLAIN);
    let node = read(text, &mut report);
    let errors = report.finish(node.map(|_| ())).unwrap_err();
    let lines: Vec<usize> = errors.diagnostics().iter().map(|found| found.line).collect();
    assert_eq!(lines, [2, 4]);
}

#[test]
fn keys_are_words() {
    refused_at("[a, b]: 1\n", 1, 1, "a key must be a word");
    refused_at("x:\n  {a: 1}: 2\n", 2, 3, "a key must be a word");
}

#[test]
fn unneeded_yaml_features_are_refused() {
    refused_at("a: &x {b: 1}\nc:\n  <<: *x\n", 3, 3, "merge keys");
    refused_at("a: !!int 1\n", 1, 4, "tags");
    refused_at("a: !python/object/apply:os.system [id]\n", 1, 4, "tags");
    refused_at("!x\na: 1\n", 1, 1, "tags");
    refused_at("a:\n  - !!set {b}\n", 2, 5, "tags");
    refused_at("%YAML 1.1\n---\na: 1\n", 1, 1, "directives");
    refused_at("%TAG ! tag:example.org,2000:\n---\na: 1\n", 1, 1, "directives");
    refused_at("a: 1\n---\nb: 2\n", 2, 1, "one document");
    refused_at("a: 1\n...\n---\nb: 2\n", 3, 1, "one document");
    assert_eq!(parsed("---\na: 1\n...\n"), "{a=1}");
    assert_eq!(parsed("\"<<\": 1\n"), "{<<=1}");
}

#[test]
fn tabs_do_not_indent() {
    refused_at("a:\n\tb: 1\n", 2, 1, "tab");
    refused_at("a:\n  b: 1\n \tc: 1\n", 3, 2, "tab");
}

#[test]
fn a_text_without_content_is_empty() {
    for text in ["", "\n", "\n\n\n", "# only a comment\n", "  # one\n# two", "   "] {
        refused_at(text, 1, 1, "empty");
    }
}

#[test]
fn control_characters_are_refused() {
    for character in ['\0', '\u{1}', '\u{7}', '\u{1b}', '\u{7f}'] {
        let (line, ..) = refused(&format!("a: 1\nb: x{character}y\n"));
        assert_eq!(line, 2, "{character:?}");
        let (line, ..) = refused(&format!("a: 1\nb: \"x{character}y\"\n"));
        assert_eq!(line, 2, "{character:?} in quotes");
    }
}

#[test]
fn unclosed_brackets_and_quotes_are_refused_near_their_place() {
    for text in
        ["a: 1\nb: [1, 2", "a: 1\nb: {c: 1", "a: 1\nb: \"x", "a: 1\nb: 'x", "a: 1\nb: [1, 2\n\n\n"]
    {
        let (line, column, message) = refused(text);
        assert_eq!(line, 2, "{text:?}: {message}");
        assert!(column >= 1, "{text:?}");
        assert!(message.starts_with("not valid YAML"), "{message}");
    }
    for text in
        ["a: ]", "a: }", "a: b: c", "a: 1\n b: 2", "- a\nb: 1", "a: *", "a: &", "a: @x", "a: `x"]
    {
        let (line, _, message) = refused(text);
        assert!(line <= 2, "{text:?}: {message}");
    }
}

#[test]
fn an_alias_is_replaced_by_its_value() {
    assert_eq!(parsed("a: &x [1, 2]\nb: *x\n"), "{a=[1 2] b=[1 2]}");
    assert_eq!(parsed("a: &x 1\nb: &x 2\nc: *x\n"), "{a=1 b=2 c=2}");
    refused_at("a: *x\n", 1, 4, "");
    refused_at("a: &x [1, *x]\n", 1, 11, "inside the value it names");
    refused_at("a: &x {b: {c: *x}}\n", 1, 15, "inside the value it names");
}

#[test]
fn the_same_key_through_an_alias_is_still_a_duplicate() {
    refused_at("&k a: 1\n*k : 2\n", 2, 1, "occurs twice");
}

#[test]
fn error_for_too_deep_nesting_has_its_place() {
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(parsed(&nested(MAX_DEPTH)), nested(MAX_DEPTH));
    let (line, column, message) = refused(&nested(MAX_DEPTH + 1));
    assert!(message.contains("nested more than 24 levels"), "{message}");
    assert_eq!((line, column), (1, MAX_DEPTH + 1));
    let block: String = (0..=MAX_DEPTH).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    let (line, column, message) = refused(&format!("{block}{}1\n", " ".repeat(MAX_DEPTH + 1)));
    assert!(message.contains("nested more than 24 levels"), "{message}");
    assert_eq!((line, column), (MAX_DEPTH + 1, MAX_DEPTH + 1));
}

#[test]
fn aliases_do_not_nest_deeper_than_brackets() {
    let mut text = String::from("a0: &a0 [1]\n");
    for level in 1..60 {
        text.push_str(&format!("a{level}: &a{level} [*a{}]\n", level - 1));
    }
    let (line, _, message) = refused(&text);
    assert!(message.contains("nested more than 24 levels"), "{message}");
    assert_eq!(line, MAX_DEPTH);
}

#[test]
fn nodes_are_counted_after_aliases() {
    let few = format!("[{}]", vec!["1"; MAX_NODES - 1].join(","));
    assert!(parsed(&few).len() > MAX_NODES);
    let many = format!("[{}]", vec!["1"; MAX_NODES].join(","));
    let (_, _, message) = refused(&many);
    assert!(message.contains("more than 50000 values"), "{message}");
    let mut bomb = String::from("a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n");
    for level in 1..9 {
        let inner = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
    }
    let (line, _, message) = refused(&bomb);
    assert!(message.contains("more than 50000 values"), "{message}");
    assert!(line <= 6, "{line}");
}

#[test]
fn copies_of_anchored_values_are_counted() {
    let opened: String = (0..20).map(|level| format!("&a{level} [")).collect();
    let text = format!("{opened}{}{}", vec!["1"; 3000].join(","), "]".repeat(20));
    let (_, _, message) = refused(&text);
    assert!(message.contains("more than 50000 values"), "{message}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test measures time")]
fn time_grows_with_the_text_and_no_faster() {
    let within_a_second = |what: &str, text: &str| {
        let mut report = Report::new("p", text, &PLAIN);
        let start = Instant::now();
        let node = read(text, &mut report);
        assert!(start.elapsed() < Duration::from_secs(1), "{what} took {:?}", start.elapsed());
        node
    };
    let keys: String = (0..24_000).map(|key| format!("key{key}: 1\n")).collect();
    let Kind::Map(entries) = within_a_second("many keys", &keys).unwrap().kind else {
        panic!("a map")
    };
    assert_eq!(entries.len(), 24_000);
    let more: String = (0..50_000).map(|key| format!("k{key}: 1\n")).collect();
    assert!(within_a_second("too many keys", &more).is_none());
    let line = format!("a: {}", "x".repeat(1 << 20));
    assert!(within_a_second("a long line", &line).is_some());
    let anchors: String = (0..12_000).map(|name| format!("- &a{name} 1\n- *a0\n")).collect();
    assert!(within_a_second("many aliases of the first anchor", &anchors).is_some());
}

#[test]
fn aliases_of_a_long_text_are_counted_in_bytes() {
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(500_000), vec!["*a"; 20].join(", "));
    let (line, _, message) = refused(&text);
    assert!(message.contains("more than 4194304 bytes"), "{message}");
    assert_eq!(line, 2);
}

#[test]
fn numbers_are_parsed_exactly_or_refused() {
    let value = |text: &str| {
        let node = read(text, &mut Report::new("p", text, &PLAIN)).unwrap();
        node.json().map_err(|_| ())
    };
    assert_eq!(value("18446744073709551615"), Ok(Value::from(u64::MAX)));
    assert_eq!([value("18446744073709551616"), value("-.inf")], [Err(()), Err(())]);
    assert_eq!([value(".5"), value("1e3")], [Ok(Value::from(0.5)), Ok(Value::from(1000.0))]);
    assert_eq!(value("\"1\""), Ok(Value::from("1")));
}
