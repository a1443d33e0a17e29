//! What `verify` detects.

use std::fs;
use std::path::Path;

use stockade_record::{Body, Command, Digest, Reader, Tail, Verdict, encode, verify};

use crate::support::{recorder, session, started};

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory can be made")
}

/// The verdict for bytes in a file with this name.
fn judged(name: &Path, bytes: &[u8]) -> Verdict {
    fs::write(name, bytes).expect("a file can be written and read");
    verify(name).expect("a file can be written and read").verdict
}

#[test]
fn every_changed_bit_or_byte_of_a_finished_stream_is_detected() {
    let scratch = scratch();
    let path = session(scratch.path(), "x\u{1b}\n\"ä");
    assert!(verify(&path).unwrap().verdict.is_complete());
    let original = fs::read(&path).unwrap();
    for at in 0..original.len() {
        for change in [1, 0x20, 0x80, original[at] ^ b'\n'] {
            if change == 0 {
                continue;
            }
            let mut bytes = original.clone();
            bytes[at] ^= change;
            let verdict = judged(&path, &bytes);
            assert!(!verdict.holds(), "byte {at} changed by {change:#x}: {verdict:?}");
        }
    }
    assert!(judged(&path, &original).is_complete());
}

#[test]
fn every_removed_or_added_byte_is_detected() {
    let scratch = scratch();
    let path = session(scratch.path(), "x");
    let original = fs::read(&path).unwrap();
    for at in 0..original.len() {
        let mut less = original.clone();
        less.remove(at);
        assert!(!judged(&path, &less).holds(), "without byte {at}");
        for added in [b'\n', b' ', original[at]] {
            let mut more = original.clone();
            more.insert(at, added);
            assert!(!judged(&path, &more).holds(), "with {added:#x} before byte {at}");
        }
    }
    for added in [&b"\n"[..], b" ", b"{}", b"{}\n"] {
        assert!(!judged(&path, &[&original, added].concat()).holds(), "with {added:?} at the end");
    }
}

#[test]
fn finished_stream_cut_at_any_byte_is_detected() {
    let scratch = scratch();
    let path = session(scratch.path(), "x");
    let original = fs::read(&path).unwrap();
    for length in 0..original.len() {
        assert!(!judged(&path, &original[..length]).holds(), "cut to {length} bytes");
    }
}

#[test]
fn removed_swapped_or_duplicated_lines_are_detected() {
    let scratch = scratch();
    let path = session(scratch.path(), "x");
    let original = fs::read(&path).unwrap();
    let lines: Vec<&[u8]> = original.split_inclusive(|byte| *byte == b'\n').collect();
    for at in 0..lines.len() {
        let mut less = lines.clone();
        less.remove(at);
        assert!(!judged(&path, &less.concat()).holds(), "without line {at}");
        let mut double = lines.clone();
        double.insert(at, lines[at]);
        assert!(!judged(&path, &double.concat()).holds(), "line {at} twice");
        if at > 0 {
            let mut swapped = lines.clone();
            swapped.swap(at, at - 1);
            assert!(!judged(&path, &swapped.concat()).holds(), "line {at} before its own");
        }
    }
}

/// The stream with another command, and with all hashes of its chain recomputed.
fn with_command(path: &Path, change: impl Fn(&mut Command)) -> Vec<u8> {
    let mut reader = Reader::open(path).expect("the stream can be read");
    let (mut bytes, mut previous) = (Vec::new(), Digest::ZERO);
    while let Some(mut event) = reader.next().expect("the stream holds") {
        if let Body::SessionStarted(started) = &mut event.body {
            change(&mut started.command);
        }
        event.previous = previous;
        let (line, hash) = encode(&event);
        bytes.extend(line);
        previous = hash;
    }
    bytes
}

#[test]
fn words_that_do_not_match_their_hash_are_detected_although_the_chain_is_valid() {
    let scratch = scratch();
    let path = session(scratch.path(), "x");
    let same = with_command(&path, |_| {});
    assert!(judged(&path, &same).is_complete(), "a chain that is made anew holds");
    let word = with_command(&path, |command| command.argv.push("--force".to_owned()));
    let gone = with_command(&path, |command| command.argv.clear());
    let hash = with_command(&path, |command| command.argv_sha256 = Digest::of(b"other"));
    let mark = with_command(&path, |command| command.argv = vec!["rm…".to_owned()]);
    for (what, bytes) in [("word", word), ("gone", gone), ("hash", hash), ("mark", mark)] {
        let verdict = judged(&path, &bytes);
        let Verdict::Broken { error } = &verdict else { panic!("{what}: {verdict:?}") };
        assert_eq!(error.line(), Some(1), "{what}");
        assert!(format!("{error:?}").contains("argv_sha256"), "{what}: {error:?}");
        fs::write(&path, &same).unwrap();
    }
}

#[test]
fn words_shortened_to_fit_a_line_are_valid() {
    let scratch = scratch();
    let long = "ä".repeat(9000);
    let many = vec!["w"; 9000];
    for words in [vec![long.as_str(), "x"], many, vec!["…"], vec!["a…", &long]] {
        let recorder = recorder(scratch.path());
        recorder.begin(started(&words)).unwrap();
        recorder.end("exited").unwrap();
        let path = recorder.path().unwrap();
        assert!(verify(&path).unwrap().verdict.is_complete(), "{} words", words.len());
    }
}

#[test]
fn stream_of_another_session_under_this_name_is_detected() {
    let scratch = scratch();
    let (one, other) = (session(scratch.path(), "x"), session(scratch.path(), "x"));
    fs::copy(&other, &one).unwrap();
    assert!(!verify(&one).unwrap().verdict.holds());
    // A file name without a session id makes no claim.
    let copied = scratch.path().join("copy.jsonl");
    fs::copy(&other, &copied).unwrap();
    assert!(verify(&copied).unwrap().verdict.is_complete());
}

#[test]
fn torn_stream_without_an_end_is_valid_up_to_its_last_complete_event() {
    let scratch = scratch();
    let recorder = recorder(scratch.path());
    recorder.begin(started(&["ls"])).unwrap();
    for body in crate::support::bodies("x") {
        recorder.record(body).unwrap();
    }
    let path = recorder.path().unwrap();
    let live = verify(&path).unwrap();
    assert_eq!(live.events, 8);
    assert!(matches!(live.verdict, Verdict::Unfinished { tail: Tail::Clean, is_live: true }));
    drop(recorder);
    let original = fs::read(&path).unwrap();
    for length in 0..=original.len() {
        fs::write(&path, &original[..length]).unwrap();
        let found = verify(&path).unwrap();
        let whole = original[..length].split_inclusive(|byte| *byte == b'\n');
        let torn = whole.clone().next_back().filter(|line| !line.ends_with(b"\n"));
        let events = whole.filter(|line| line.ends_with(b"\n")).count();
        assert_eq!(found.events, events as u64, "cut to {length} bytes");
        let expected = torn.map_or(Tail::Clean, |line| Tail::Torn { bytes: line.len() });
        assert!(
            matches!(found.verdict, Verdict::Unfinished { tail, is_live: false } if tail == expected),
            "cut to {length} bytes: {:?}",
            found.verdict
        );
    }
}

#[test]
fn changed_event_of_a_stream_without_an_end_is_detected() {
    let scratch = scratch();
    let recorder = recorder(scratch.path());
    recorder.begin(started(&["ls"])).unwrap();
    let path = recorder.path().unwrap();
    let original = fs::read(&path).unwrap();
    // Excludes the last byte, the line feed: without it the line is incomplete.
    for at in 0..original.len() - 1 {
        let mut bytes = original.clone();
        bytes[at] ^= 1;
        assert!(!judged(&path, &bytes).holds(), "byte {at}");
    }
}
