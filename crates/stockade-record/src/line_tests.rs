use stockade_policy::Effect;

use super::*;
use crate::{LimitHit, ToolCall, VerdictGiven};

fn event(body: Body) -> Event {
    let name = "20260728-101112-000045-0123456789abcdef0123456789abcdef";
    Event {
        sequence: 7,
        time: Time::from_unix_microseconds(1_785_233_472_000_045).unwrap(),
        session: SessionId::parse(name).unwrap(),
        body,
        previous: Digest::of(b"before"),
    }
}

fn limit(text: &str) -> Event {
    event(Body::LimitHit(LimitHit { execution: Some(0), limit: text.to_owned(), ended: false }))
}

/// A changed line with a recomputed hash, as a forger would write it.
fn forged(line: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = std::str::from_utf8(line).unwrap();
    let (content, _) = text.split_at(text.len() - TAIL_BYTES);
    assert!(content.contains(from), "{content}");
    let content = content.replacen(from, to, 1);
    let hash = Digest::of(content.as_bytes());
    format!("{content}{BEFORE_HASH}{hash}{AFTER_HASH}").into_bytes()
}

#[test]
fn event_is_one_line_that_ends_with_the_hash_of_the_rest() {
    let (line, hash) = encode(&limit("max_pids"));
    let content = concat!(
        r#"{"sequence":7,"time":"2026-07-28T10:11:12.000045Z","#,
        r#""session":"20260728-101112-000045-0123456789abcdef0123456789abcdef","#,
        r#""kind":"limit_hit","body":{"execution":0,"limit":"max_pids","ended":false},"#,
        r#""previous":"BEFORE""#,
    );
    let content = content.replace("BEFORE", &Digest::of(b"before").to_string());
    assert_eq!(hash, Digest::of(content.as_bytes()));
    assert_eq!(
        String::from_utf8(line.clone()).unwrap(),
        format!("{content},\"hash\":\"{hash}\"}}\n")
    );
    assert_eq!(decode(&line).unwrap(), (limit("max_pids"), hash));
}

#[test]
fn digest_matches_the_standard_sha256() {
    let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(Digest::of(b"abc").to_string(), known);
    assert_eq!(
        serde_json::from_str::<Digest>(&format!("\"{known}\"")).unwrap(),
        Digest::of(b"abc")
    );
    for other in [known.to_uppercase(), known[1..].to_owned(), format!("{known}0")] {
        assert!(serde_json::from_str::<Digest>(&format!("\"{other}\"")).is_err(), "{other}");
    }
}

#[test]
fn names_with_line_feeds_and_escapes_stay_inside_their_field() {
    let hostile = "a\n{\"sequence\":8}\r\u{1b}[2J\u{9b}\u{2028}\u{202e}\u{e0041}\0\"\\";
    let (line, _) = encode(&limit(hostile));
    let text = std::str::from_utf8(&line).unwrap();
    assert_eq!(text.matches('\n').count(), 1);
    assert!(text.trim_end_matches('\n').chars().all(is_harmless), "{text}");
    assert_eq!(decode(&line).unwrap().0, limit(hostile));
}

#[test]
fn noncanonical_spelling_is_refused_even_with_a_matching_hash() {
    let (line, _) = encode(&limit("a/b"));
    for (from, to) in [
        (":7,", ": 7,"),
        (":7,", ":7.0,"),
        (":7,", ":7,\"sequence\":7,"),
        ("a/b", "a\\/b"),
        ("a/b", "\\u0061/b"),
        ("{\"execution\":0,\"limit\":\"a/b\"", "{\"limit\":\"a/b\",\"execution\":0"),
        ("\"execution\":0", "\"execution\":1,\"execution\":0"),
        (",\"ended\":false", ",\"ended\":false,\"more\":1"),
        ("limit_hit", "another"),
        (".000045Z", ".000045+00:00"),
    ] {
        let changed = forged(&line, from, to);
        assert!(decode(&changed).is_err(), "{}", String::from_utf8_lossy(&changed));
    }
    // A forged line with another event decodes: only the chain detects it.
    assert_eq!(decode(&forged(&line, "a/b", "a/c")).unwrap().0, limit("a/c"));
}

#[test]
fn long_event_is_shortened_and_marks_the_cut() {
    let long = "\u{1b}".repeat(100_000);
    let given = |text: &str| VerdictGiven {
        execution: None,
        verdict: Effect::Deny,
        control: text.to_owned(),
        rule: text.to_owned(),
        target: text.to_owned(),
        why: text.to_owned(),
        denial: None,
    };
    let (line, _) = encode(&event(Body::Verdict(given(&long))));
    assert!(line.len() <= MAX_LINE_BYTES, "{}", line.len());
    let (read, _) = decode(&line).unwrap();
    let Body::Verdict(read) = read.body else { panic!("{read:?}") };
    assert!(read.why.ends_with('…') && read.why.starts_with('\u{1b}'));
}

#[test]
fn malformed_lines_are_refused() {
    for bytes in [&b""[..], b"\n", b"{}\n", b"\xff\xfe\n", &[b'a'; 200]] {
        assert!(matches!(decode(bytes), Err(LineError::NoHash)), "{bytes:?}");
    }
}

#[test]
fn tool_call_fields_have_one_order() {
    let call = ToolCall {
        execution: Some(0),
        call: 7,
        tool: "search".to_owned(),
        verdict: Effect::Allow,
        rule: "p.yaml:1: tool_allowlist".to_owned(),
        denial: None,
        outcome: ToolCall::ANSWERED.to_owned(),
        duration_ms: 3,
        argument_bytes: 13,
        result_bytes: 2,
        arguments: Some(r#"{"query":"x"}"#.to_owned()),
    };
    let (line, _) = encode(&event(Body::ToolCall(call.clone())));
    let body = concat!(
        r#""kind":"tool_call","body":{"execution":0,"call":7,"tool":"search","verdict":"allow","#,
        r#""rule":"p.yaml:1: tool_allowlist","denial":null,"outcome":"answered","#,
        r#""duration_ms":3,"argument_bytes":13,"result_bytes":2,"#,
        r#""arguments":"{\"query\":\"x\"}"}"#,
    );
    let text = std::str::from_utf8(&line).unwrap();
    assert!(text.contains(body), "{text}");
    assert_eq!(decode(&line).unwrap().0, event(Body::ToolCall(call)));
    // A missing field is an error, and not accepted as an older format either.
    assert!(decode(&forged(&line, ",\"arguments\":\"{\\\"query\\\":\\\"x\\\"}\"", "")).is_err());
}

#[test]
fn format_1_line_without_an_execution_belongs_to_the_session() {
    let hit = |execution| {
        let (limit, ended) = ("max_pids".to_owned(), false);
        event(Body::LimitHit(LimitHit { execution, limit, ended }))
    };
    let (of_session, of_execution) = (encode(&hit(None)).0, encode(&hit(Some(3))).0);
    let text = |line: &[u8]| String::from_utf8(line.to_vec()).unwrap();
    assert!(!text(&of_session).contains("execution"), "{}", text(&of_session));
    assert!(text(&of_execution).contains(r#""body":{"execution":3,"#));
    assert_eq!(decode(&of_session).unwrap().0.body.execution(), None);
    assert_eq!(decode(&of_execution).unwrap().0.body.execution(), Some(3));
    // `None` has one spelling: a missing field.
    assert!(decode(&forged(&of_execution, "\"execution\":3", "\"execution\":null")).is_err());
}
