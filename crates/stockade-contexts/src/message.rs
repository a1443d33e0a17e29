//! The messages of the script, which are hostile.

use serde::Deserialize;

use crate::{CellError, ContextResult, MimeBundle};

/// How many MIME types one result has at most.
const MAX_TYPES: usize = 64;

/// The longest name of a MIME type.
const MAX_TYPE_BYTES: usize = 256;

/// The longest name of an exception, its longest text, and its longest traceback. The script
/// shortens them; a report with both, escaped as JSON, fits in one frame of the API.
const MAX_NAME_BYTES: usize = 1024;
const MAX_VALUE_BYTES: usize = 32 << 10;
const MAX_TRACEBACK_BYTES: usize = 64 << 10;

/// A message about one call.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A value that the call shows.
    Result {
        /// The number of the call.
        call: u64,
        /// The value.
        result: Box<ContextResult>,
    },
    /// The exception that ended the call.
    Error {
        /// The number of the call.
        call: u64,
        /// The exception.
        error: CellError,
    },
    /// The call has ended, and all that it wrote to this stream was sent before.
    Done {
        /// The number of the call.
        call: u64,
        /// How many calls the interpreter has executed.
        count: u64,
    },
}

/// Bytes are not a message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// They are not the JSON of a message.
    #[error("a message of the context is malformed")]
    Malformed {
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A part of the message is too long.
    #[error("a message of the context has too long a {what}")]
    TooLong {
        /// The part.
        what: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Sent {
    Result { call: u64, main: bool, data: MimeBundle },
    Error { call: u64, name: String, value: String, traceback: String },
    Done { call: u64, count: u64 },
}

/// Parses one message.
pub fn message(bytes: &[u8]) -> Result<Message, MessageError> {
    let sent =
        serde_json::from_slice(bytes).map_err(|source| MessageError::Malformed { source })?;
    let within = |text: &str, most: usize, what| match text.len() <= most {
        true => Ok(()),
        false => Err(MessageError::TooLong { what }),
    };
    match sent {
        Sent::Result { call, main, data } => {
            if data.len() > MAX_TYPES {
                return Err(MessageError::TooLong { what: "list of MIME types" });
            }
            data.keys().try_for_each(|mime| within(mime, MAX_TYPE_BYTES, "MIME type"))?;
            Ok(Message::Result { call, result: Box::new(ContextResult::of(data, main)) })
        }
        Sent::Error { call, name, value, traceback } => {
            within(&name, MAX_NAME_BYTES, "name")?;
            within(&value, MAX_VALUE_BYTES, "value")?;
            within(&traceback, MAX_TRACEBACK_BYTES, "traceback")?;
            Ok(Message::Error { call, error: CellError { name, value, traceback } })
        }
        Sent::Done { call, count } => Ok(Message::Done { call, count }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_are_parsed_strictly() {
        let parsed = |text: &str| message(text.as_bytes());
        assert_eq!(
            parsed(r#"{"type":"done","call":3,"count":2}"#).unwrap(),
            Message::Done { call: 3, count: 2 }
        );
        for text in [
            "",
            "null",
            r#"{"type":"done","call":3}"#,
            r#"{"type":"done","call":-3,"count":1}"#,
            r#"{"type":"done","call":3,"count":2,"more":1}"#,
            r#"{"type":"end","call":3,"count":2}"#,
            r#"{"type":"done","call":3,"count":2} x"#,
            r#"{"type":"result","call":1,"main":true,"data":[]}"#,
        ] {
            assert!(matches!(parsed(text), Err(MessageError::Malformed { .. })), "{text}");
        }
    }

    #[test]
    fn long_parts_and_too_many_types_are_refused() {
        let types: MimeBundle = (0..65).map(|it| (format!("a/{it}"), json!(1))).collect();
        let many = json!({ "type": "result", "call": 1, "main": false, "data": types });
        let long = json!({
            "type": "error", "call": 1, "name": "n".repeat(1025), "value": "", "traceback": "",
        });
        for sent in [many, long] {
            let refused = message(sent.to_string().as_bytes());
            assert!(matches!(refused, Err(MessageError::TooLong { .. })), "{refused:?}");
        }
    }
}
