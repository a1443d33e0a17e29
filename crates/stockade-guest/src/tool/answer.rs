//! The line that answers a request.

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

/// An answer from the host.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer<'l> {
    /// The result, exactly as the host wrote it.
    Result(&'l [u8]),
    Error(Problem),
}

/// Why there is no result.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Problem {
    pub(super) code: String,
    pub(super) message: String,
}

impl Answer<'_> {
    /// Parses an answer; returns `None` if it is malformed. Does not parse results: they are
    /// printed unchanged, however large and deep.
    pub(super) fn read(line: &[u8]) -> Option<Answer<'_>> {
        let mut rest = after(line, b'{')?;
        loop {
            let (key, _, left) = next::<String>(rest)?;
            let (IgnoredAny, value, left) = next(after(left, b':')?)?;
            match key.as_str() {
                "result" => return Some(Answer::Result(value)),
                "error" => return Some(Answer::Error(serde_json::from_slice(value).ok()?)),
                _ => rest = after(left, b',')?,
            }
        }
    }
}

/// The text after the expected byte.
fn after(text: &[u8], expected: u8) -> Option<&[u8]> {
    text.trim_ascii_start().strip_prefix(&[expected])
}

/// The next value, its bytes, and the text after it.
fn next<T: DeserializeOwned>(text: &[u8]) -> Option<(T, &[u8], &[u8])> {
    let text = text.trim_ascii_start();
    let mut values = serde_json::Deserializer::from_slice(text).into_iter();
    let value = values.next()?.ok()?;
    let (written, rest) = text.split_at_checked(values.byte_offset())?;
    Some((value, written, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_is_returned_unchanged() {
        for (line, result) in [
            (r#"{"id":1,"result":{"a":[1,2.50,"}\""]}}"#, r#"{"a":[1,2.50,"}\""]}"#),
            (r#" { "id" : null , "result" : "x" } "#, r#""x""#),
            (r#"{"result":12,"id":{"b":[]}}"#, "12"),
            (r#"{"id":1,"result":null}"#, "null"),
        ] {
            let expected = Answer::Result(result.as_bytes());
            assert_eq!(Answer::read(line.as_bytes()), Some(expected), "{line}");
        }
        let deep =
            format!("{{\"id\":1,\"result\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(
            matches!(Answer::read(deep.as_bytes()), Some(Answer::Result(it)) if it.len() == 200_000)
        );
    }

    #[test]
    fn error_has_its_code_and_message() {
        let line = br#"{"id":1,"error":{"code":"denied","message":"no: \u00e9","more":1}}"#;
        let problem = Problem { code: "denied".to_owned(), message: "no: é".to_owned() };
        assert_eq!(Answer::read(line), Some(Answer::Error(problem)));
    }

    #[test]
    fn malformed_answers_are_rejected() {
        for line in
            ["", "{}", "[]", "{\"id\":1}", "{\"result\"", "{\"result\":", "{\"error\":1}", "x"]
        {
            assert_eq!(Answer::read(line.as_bytes()), None, "{line}");
        }
    }
}
