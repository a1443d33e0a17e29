//! A run as JSON Lines: its start, its output, its denials and its end, as they happen.

use std::io::{self, Write};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use stockade_policy::Denial;
use stockade_record::Body;

use super::json_line;

/// The most denials that are printed while a program runs; the end has those of the report.
const MAX_DENIALS: usize = 10_000;

/// One stream of a program. Each write becomes one line on our standard output; the lines of
/// several streams do not mix.
pub(super) struct Lines {
    stream: &'static str,
    pieces: Pieces,
}

impl Lines {
    pub(super) fn new(stream: &'static str) -> Lines {
        Lines { stream, pieces: Pieces::default() }
    }

    fn event(&self, (key, value): (&'static str, String)) -> Value {
        json!({ "event": "output", "stream": self.stream, key: value })
    }
}

/// Output in pieces that do not divide characters. Each piece is a key and a value: `text`, or
/// `base64` if it is not UTF-8.
#[derive(Default)]
pub(crate) struct Pieces {
    /// The beginning of a character whose rest has not arrived.
    open: Vec<u8>,
}

impl Pieces {
    /// The next piece; `None` if the bytes are only the beginning of a character.
    pub(crate) fn next(&mut self, bytes: &[u8]) -> Option<(&'static str, String)> {
        let mut bytes = [std::mem::take(&mut self.open), bytes.to_vec()].concat();
        if let Err(error) = std::str::from_utf8(&bytes)
            && error.error_len().is_none()
        {
            self.open = bytes.split_off(error.valid_up_to());
        }
        if bytes.is_empty() {
            return None;
        }
        Some(match String::from_utf8(bytes) {
            Ok(text) => ("text", text),
            Err(error) => ("base64", STANDARD.encode(error.as_bytes())),
        })
    }

    /// The beginning of a character that never came to its end.
    pub(crate) fn rest(&mut self) -> Option<(&'static str, String)> {
        let rest = std::mem::take(&mut self.open);
        (!rest.is_empty()).then(|| ("base64", STANDARD.encode(rest)))
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(piece) = self.pieces.next(bytes) {
            json_line(&self.event(piece)).map_err(io::Error::other)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if let Some(rest) = self.pieces.rest() {
            // Ignores the error of a closed output, which the run has reported.
            let _ = json_line(&self.event(rest));
        }
    }
}

/// Prints denials on a thread of its own: a slow reader must not delay the run.
pub(crate) struct Denials {
    sender: Sender<Option<Denial>>,
    thread: JoinHandle<()>,
}

impl Denials {
    pub(crate) fn start() -> Denials {
        let (sender, receiver) = mpsc::channel::<Option<Denial>>();
        let thread = std::thread::spawn(move || {
            let denials = receiver.iter().map_while(|denial| denial).take(MAX_DENIALS);
            for denial in denials {
                if json_line(&json!({ "event": "denial", "denial": denial })).is_err() {
                    return;
                }
            }
        });
        Denials { sender, thread }
    }

    /// Observes the events of a record.
    pub(crate) fn observer(&self) -> impl Fn(&Body) + Send + Sync + use<> {
        let sender = self.sender.clone();
        move |body| {
            let denial = match body {
                Body::Denial(denied) => Some(&denied.denial),
                Body::Egress(egress) => egress.denial.as_ref(),
                Body::ToolCall(call) => call.denial.as_ref(),
                _ => None,
            };
            if let Some(denial) = denial {
                // Ignores the error after the last denial that is printed.
                let _ = sender.send(Some(denial.clone()));
            }
        }
    }

    /// Waits until every denial is printed.
    pub(crate) fn end(self) {
        let _ = self.sender.send(None);
        // A panic of the thread has printed its reason.
        let _ = self.thread.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_is_text_or_base64_and_characters_are_not_divided() {
        let mut pieces = Pieces::default();
        let text = |text: &str| Some(("text", text.to_owned()));
        let encoded = |text: &str| Some(("base64", text.to_owned()));
        assert_eq!(pieces.next(b"a\xc3"), text("a"));
        assert_eq!(pieces.next(b"\xbc\n"), text("ü\n"));
        assert_eq!(pieces.next(b"\xc3"), None);
        assert_eq!((pieces.rest(), pieces.rest()), (encoded("ww=="), None));
        assert_eq!(pieces.next(b"\xff\0"), encoded("/wA="));
        let event = Lines::new("stdout").event(("text", "a".to_owned()));
        assert_eq!(event, json!({ "event": "output", "stream": "stdout", "text": "a" }));
    }
}
