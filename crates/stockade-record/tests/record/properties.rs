//! Events with arbitrary text in every field.

use proptest::collection::vec;
use proptest::prelude::*;
use stockade_record::{MAX_LINE_BYTES, Reader, decode, verify};

use crate::support::{bodies, recorder, started};

/// Text that an attacker would choose, and arbitrary text.
fn text() -> impl Strategy<Value = String> {
    let hostile = prop::sample::select(vec![
        "\n",
        "\r\n{\"sequence\":1}",
        "\u{1b}]0;x\u{7}",
        "\",\"hash\":\"",
        "\"}\n",
        "\\",
        "\u{2028}",
        "\u{202e}",
        "\0",
        "\u{10ffff}",
        "ä",
    ]);
    let piece = prop_oneof![hostile.prop_map(str::to_owned), any::<String>()];
    let long =
        (any::<char>(), 0..40_000_usize).prop_map(|(one, times)| one.to_string().repeat(times));
    prop_oneof![4 => vec(piece, 0..8).prop_map(|pieces| pieces.concat()), 1 => long]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_gives_one_line_per_event_and_a_valid_chain(texts in vec(text(), 1..4)) {
        let scratch = tempfile::tempdir().unwrap();
        let recorder = recorder(scratch.path());
        let words: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut begun = started(&words);
        begun.variables.clone_from(&texts);
        recorder.begin(begun).unwrap();
        let mut events = 2;
        for text in &texts {
            for body in bodies(text) {
                recorder.record(body).unwrap();
                events += 1;
            }
        }
        recorder.end(&texts[0]).unwrap();
        let path = recorder.path().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        prop_assert_eq!(lines.len(), events);
        prop_assert!(lines.iter().all(|line| line.len() <= MAX_LINE_BYTES));
        prop_assert!(bytes.iter().all(|byte| *byte == b'\n' || (*byte >= 0x20 && *byte != 0x7f)));
        prop_assert!(verify(&path).unwrap().verdict.is_complete());
        let mut reader = Reader::open(&path).unwrap();
        while let Some(event) = reader.next().unwrap() {
            let line = lines[usize::try_from(event.sequence).unwrap()];
            prop_assert_eq!(&decode(line).unwrap().0, &event);
        }
    }

    #[test]
    fn arbitrary_bytes_are_never_a_valid_stream_and_never_panic(bytes in vec(any::<u8>(), 0..600)) {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("x.jsonl");
        std::fs::write(&path, &bytes).unwrap();
        prop_assert!(!verify(&path).unwrap().verdict.holds());
    }
}
