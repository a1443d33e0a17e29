//! Requests of programs: one JSON object per line.

use serde_json::{Map, Value, json};

use crate::fault::{Code, Fault};
use crate::json::{Bounds, JsonError, read};
use crate::words::counted;

/// How many bytes a line may have in addition to the arguments: the id, the name, and the keys.
pub(super) const ENVELOPE: usize = 2048;

/// The longest id that is a string, in bytes.
const MAX_ID: usize = 64;

/// The largest id that is a number; every JSON parser can represent it.
const MAX_NUMBER: u64 = 1 << 53;

const UNDERSTOOD: &str =
    "write {\"id\": 1, \"call\": \"NAME\", \"arguments\": {…}} or {\"id\": 1, \"list\": true}";

/// The id by which a program matches answers to its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Id {
    Number(u64),
    Text(String),
    /// The id of a request could not be read.
    Unknown,
}

/// One request.
#[derive(Debug, PartialEq)]
pub(super) enum Request {
    List { id: Id },
    Call { id: Id, tool: String, arguments: Value },
}

/// Why a line was refused.
#[derive(Debug, PartialEq)]
pub(super) struct Refused {
    pub(super) id: Id,
    pub(super) fault: Fault,
}

impl Request {
    /// Parses a line. The arguments must be within the bounds; the line may be slightly longer.
    pub(super) fn read(line: &[u8], bounds: Bounds) -> Result<Request, Refused> {
        let whole =
            Bounds { bytes: bounds.bytes.saturating_add(ENVELOPE), depth: bounds.depth + 1 };
        let value = read(line, whole).map_err(|error| match error {
            JsonError::TooLarge { .. } => Refused::too_large(line, bounds),
            JsonError::TooDeep { .. } => Refused::too_deep(line, bounds),
            JsonError::Invalid { .. } => not_understood(format!("the request {error}")),
        })?;
        let Value::Object(fields) = value else {
            return Err(not_understood(format!("the request is not an object; {UNDERSTOOD}")));
        };
        Request::decode(fields)
    }

    fn decode(mut fields: Map<String, Value>) -> Result<Request, Refused> {
        let id = match fields.remove("id") {
            Some(id) => Id::of(&id),
            None => None,
        };
        let Some(id) = id else {
            let message = "the request needs an `id`: a whole number up to 2^53, or a text of at most 64 bytes";
            return Err(not_understood(message));
        };
        let call = fields.remove("call");
        let list = fields.remove("list");
        let arguments = fields.remove("arguments");
        if let Some(field) = fields.keys().next() {
            return Err(not_understood(format!(
                "the request has an unknown field `{field}`; {UNDERSTOOD}"
            )));
        }
        match (call, list, arguments) {
            (Some(Value::String(tool)), None, Some(arguments @ Value::Object(_))) => {
                Ok(Request::Call { id, tool, arguments })
            }
            (Some(Value::String(tool)), None, None) => {
                Ok(Request::Call { id, tool, arguments: json!({}) })
            }
            (None, Some(Value::Bool(true)), None) => Ok(Request::List { id }),
            _ => Err(not_understood(format!(
                "the request is neither a call nor a list; {UNDERSTOOD}"
            ))),
        }
    }
}

impl Refused {
    /// For a line that exceeds its limit; `head` is its start.
    pub(super) fn too_large(head: &[u8], bounds: Bounds) -> Refused {
        let why = Refused::larger(bounds);
        let message = format!("{why}; send less, or raise max_tool_bytes in the policy");
        Refused { id: Id::of_line(head), fault: Fault::new(Code::TooLarge, message) }
    }

    /// For a line without a line feed.
    pub(super) fn half() -> Refused {
        not_understood("the request stops in the middle of a line; end each with a line feed")
    }

    fn too_deep(head: &[u8], bounds: Bounds) -> Refused {
        let why = Refused::deeper(bounds);
        let message = format!("{why}; the limit is max_tool_depth in the policy");
        Refused { id: Id::of_line(head), fault: Fault::new(Code::TooDeep, message) }
    }

    pub(super) fn larger(bounds: Bounds) -> String {
        format!("the arguments have more than {}", counted(bounds.bytes, "byte"))
    }

    pub(super) fn deeper(bounds: Bounds) -> String {
        format!("the arguments are nested more than {} deep", counted(bounds.depth, "level"))
    }
}

fn not_understood(message: impl AsRef<str>) -> Refused {
    Refused { id: Id::Unknown, fault: Fault::new(Code::InvalidRequest, message) }
}

impl Id {
    fn of(value: &Value) -> Option<Id> {
        match value {
            Value::Number(number) => number.as_u64().filter(|n| *n <= MAX_NUMBER).map(Id::Number),
            Value::String(text) if text.len() <= MAX_ID => Some(Id::Text(text.clone())),
            _ => None,
        }
    }

    /// The id of a line that was not parsed, if it comes first and is a plain number. It only tells
    /// the same program which of its requests is answered.
    fn of_line(head: &[u8]) -> Id {
        let number = head.strip_prefix(b"{\"id\":").and_then(|rest| {
            let rest = rest.trim_ascii_start();
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let text = rest.get(digits).filter(|next| **next == b',').map(|_| &rest[..digits])?;
            std::str::from_utf8(text).ok()?.parse().ok()
        });
        number.filter(|number| *number <= MAX_NUMBER).map_or(Id::Unknown, Id::Number)
    }

    fn json(&self) -> Value {
        match self {
            Id::Number(number) => json!(number),
            Id::Text(text) => json!(text),
            Id::Unknown => Value::Null,
        }
    }
}

/// The line that answers with a result, given as compact JSON.
pub(super) fn result_line(id: &Id, result: &[u8]) -> Vec<u8> {
    let mut line = format!("{{\"id\":{},\"result\":", id.json()).into_bytes();
    line.extend_from_slice(result);
    line.extend_from_slice(b"}\n");
    line
}

/// The line that answers with an error.
pub(super) fn error_line(id: &Id, fault: &Fault) -> Vec<u8> {
    let error = json!({"code": fault.code.as_str(), "message": fault.message});
    let mut line = json!({"id": id.json(), "error": error}).to_string().into_bytes();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { bytes: 100, depth: 3 };

    fn code(line: &str) -> (Id, Code) {
        let refused = Request::read(line.as_bytes(), BOUNDS).unwrap_err();
        assert!(!refused.fault.message.is_empty());
        (refused.id, refused.fault.code)
    }

    #[test]
    fn calls_and_lists_are_parsed() {
        let call = r#"{"id":7,"call":"add","arguments":{"a":[1]}}"#;
        let expected = Request::Call {
            id: Id::Number(7),
            tool: "add".to_owned(),
            arguments: json!({"a": [1]}),
        };
        assert_eq!(Request::read(call.as_bytes(), BOUNDS), Ok(expected));
        let list = Request::List { id: Id::Text("x".to_owned()) };
        assert_eq!(Request::read(br#"{"list":true,"id":"x"}"#, BOUNDS), Ok(list));
    }

    #[test]
    fn malformed_requests_are_refused() {
        for line in [
            "",
            "[]",
            "1",
            "{}",
            r#"{"id":1}"#,
            r#"{"id":1,"call":"a","list":true}"#,
            r#"{"id":1,"list":false}"#,
            r#"{"id":1,"list":true,"arguments":{}}"#,
            r#"{"id":1,"call":1}"#,
            r#"{"id":1,"call":"a","arguments":[1]}"#,
            r#"{"id":1,"call":"a","arguments":null}"#,
            r#"{"id":1,"call":"a","argument":{}}"#,
            r#"{"id":-1,"call":"a"}"#,
            r#"{"id":1.5,"call":"a"}"#,
            r#"{"id":null,"call":"a"}"#,
            r#"{"id":9007199254740993,"call":"a"}"#,
            r#"{"id":[1],"call":"a"}"#,
            r#"{"id":1,"id":2,"call":"a"}"#,
            r#"{"id":1,"call":"a","arguments":{"x":1,"x":2}}"#,
            r#"{"id":1,"call":"a","arguments":{"x":NaN}}"#,
            r#"{"id":1,"call":"a"} x"#,
            r#"{"id":1,"call":"\ud800"}"#,
            r#"{"id":1,"call":"a","arguments":{"x":1e400}}"#,
        ] {
            assert_eq!(code(line), (Id::Unknown, Code::InvalidRequest), "{line}");
        }
        let long = format!(r#"{{"id":"{}","call":"a"}}"#, "x".repeat(65));
        assert_eq!(code(&long), (Id::Unknown, Code::InvalidRequest));
    }

    #[test]
    fn bounds_apply_to_the_arguments_and_the_refusal_carries_the_id() {
        let deep = |levels: usize| {
            format!(
                r#"{{"id":5,"call":"a","arguments":{{"x":{}{}}}}}"#,
                "[".repeat(levels - 1),
                "]".repeat(levels - 1)
            )
        };
        assert!(Request::read(deep(3).as_bytes(), BOUNDS).is_ok());
        assert_eq!(code(&deep(4)), (Id::Number(5), Code::TooDeep));
        let large = format!(r#"{{"id": 6,"call":"a","arguments":{{"x":"{}"}}}}"#, "x".repeat(3000));
        assert_eq!(code(&large), (Id::Number(6), Code::TooLarge));
        assert_eq!(Id::of_line(br#"{"call":"a","id":6}"#), Id::Unknown);
        assert_eq!(Id::of_line(br#"{"id":6}"#), Id::Unknown);
        assert_eq!(Id::of_line(br#"{"id":99999999999999999999,"#), Id::Unknown);
    }

    #[test]
    fn answer_is_one_line() {
        let fault = Fault::failed("two\nlines");
        let line = error_line(&Id::Text("a\nb".to_owned()), &fault);
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        let expected = "{\"id\":4,\"result\":[1]}\n";
        assert_eq!(String::from_utf8(result_line(&Id::Number(4), b"[1]")).unwrap(), expected);
    }
}
