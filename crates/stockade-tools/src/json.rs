//! A JSON parser for untrusted input: bounded in size and depth, and with a single interpretation.
//!
//! The parser keeps open lists and objects on the heap instead of recursing, so a deeply nested
//! text cannot overflow the stack. `serde_json` parses strings and numbers.

use std::io;

use serde_json::{Map, Number, Value};

use crate::words::{counted, harmless};

/// The most characters of a message about a text that is not JSON.
const MAX_MESSAGE: usize = 300;

/// How large and how deeply nested a value may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The length of its text in bytes.
    pub(crate) bytes: usize,
    /// The nesting of lists and objects; a number has depth 0.
    pub(crate) depth: usize,
}

/// Why a text or value is refused. The messages continue a sentence such as `the result …`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JsonError {
    #[error("has more than {}", counted(most, "byte"))]
    TooLarge { most: usize },
    #[error("is nested more than {} deep", counted(most, "level"))]
    TooDeep { most: usize },
    #[error("is not JSON: {why}")]
    Invalid { why: String },
}

/// Parses a text. Refuses duplicate keys, numbers that cannot be represented, unpaired surrogates,
/// `NaN` and trailing bytes: other parsers would read them differently.
pub(crate) fn read(text: &[u8], bounds: Bounds) -> Result<Value, JsonError> {
    if text.len() > bounds.bytes {
        return Err(JsonError::TooLarge { most: bounds.bytes });
    }
    Reader { text, at: 0 }.document(bounds.depth)
}

/// The length of a value as compact text, if it is within the bounds.
pub(crate) fn measure(value: &Value, bounds: Bounds) -> Result<usize, JsonError> {
    if is_deeper(value, bounds.depth) {
        return Err(JsonError::TooDeep { most: bounds.depth });
    }
    let mut counter = Counter { bytes: 0, most: bounds.bytes };
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => Ok(counter.bytes),
        Err(_) => Err(JsonError::TooLarge { most: bounds.bytes }),
    }
}

/// Whether a value is nested deeper. Not recursive: the depth of the value is not bounded yet.
fn is_deeper(value: &Value, most: usize) -> bool {
    let mut open = vec![(value, 1)];
    while let Some((value, depth)) = open.pop() {
        match value {
            Value::Array(_) | Value::Object(_) if depth > most => return true,
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => open.extend(fields.values().map(|field| (field, depth + 1))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    false
}

struct Counter {
    bytes: usize,
    most: usize,
}

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len();
        if self.bytes > self.most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

/// An open list or object.
enum Open {
    List(Vec<Value>),
    /// With the key of the next value.
    Object(Map<String, Value>, String),
}

impl Reader<'_> {
    fn document(mut self, most: usize) -> Result<Value, JsonError> {
        let mut open: Vec<Open> = Vec::new();
        loop {
            // A value starts here, unless a list or object is empty.
            let mut value = match self.next() {
                Some(begin @ (b'[' | b'{')) => {
                    if open.len() == most {
                        return Err(JsonError::TooDeep { most });
                    }
                    self.at += 1;
                    match (begin, self.next()) {
                        (b'[', Some(b']')) => {
                            self.at += 1;
                            Value::Array(Vec::new())
                        }
                        (b'{', Some(b'}')) => {
                            self.at += 1;
                            Value::Object(Map::new())
                        }
                        (b'[', _) => {
                            open.push(Open::List(Vec::new()));
                            continue;
                        }
                        _ => {
                            let key = self.key(&Map::new())?;
                            open.push(Open::Object(Map::new(), key));
                            continue;
                        }
                    }
                }
                _ => self.scalar()?,
            };
            // A value ends here, and with it every list or object that it completes.
            loop {
                match open.pop() {
                    None => return self.end(value),
                    Some(Open::List(mut items)) => {
                        items.push(value);
                        match self.next() {
                            Some(b',') => {
                                self.at += 1;
                                open.push(Open::List(items));
                                break;
                            }
                            Some(b']') => {
                                self.at += 1;
                                value = Value::Array(items);
                            }
                            _ => return Err(self.invalid("expected `,` or `]`")),
                        }
                    }
                    Some(Open::Object(mut fields, key)) => {
                        fields.insert(key, value);
                        match self.next() {
                            Some(b',') => {
                                self.at += 1;
                                let key = self.key(&fields)?;
                                open.push(Open::Object(fields, key));
                                break;
                            }
                            Some(b'}') => {
                                self.at += 1;
                                value = Value::Object(fields);
                            }
                            _ => return Err(self.invalid("expected `,` or `}`")),
                        }
                    }
                }
            }
        }
    }

    fn end(&mut self, value: Value) -> Result<Value, JsonError> {
        match self.next() {
            None => Ok(value),
            Some(_) => Err(self.invalid("trailing bytes follow the value")),
        }
    }

    /// The next byte that is not white space.
    fn next(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    /// A key that the object does not have yet, and its colon.
    fn key(&mut self, fields: &Map<String, Value>) -> Result<String, JsonError> {
        if self.next() != Some(b'"') {
            return Err(self.invalid("expected a key in double quotes"));
        }
        let key = self.string()?;
        if fields.contains_key(&key) {
            return Err(self.invalid(&format!("the key `{}` occurs twice", harmless(&key, 60))));
        }
        if self.next() != Some(b':') {
            return Err(self.invalid("expected `:` after a key"));
        }
        self.at += 1;
        Ok(key)
    }

    fn scalar(&mut self) -> Result<Value, JsonError> {
        if self.next() == Some(b'"') {
            return self.string().map(Value::String);
        }
        let rest = &self.text[self.at..];
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-._".contains(byte);
        let word = &rest[..rest.iter().take_while(|byte| is_word(byte)).count()];
        let value = match word {
            b"null" => Value::Null,
            b"true" => Value::Bool(true),
            b"false" => Value::Bool(false),
            b"" if rest.is_empty() => return Err(self.invalid("it ends too early")),
            b"" => return Err(self.invalid("expected a value")),
            [b'-' | b'0'..=b'9', ..] => {
                let number = serde_json::from_slice::<Number>(word);
                let number = number.map_err(|_| self.no_number(word))?;
                if !is_kept(word, &number) {
                    return Err(self.changed_number(word));
                }
                Value::Number(number)
            }
            _ => return Err(self.no_number(word)),
        };
        self.at += word.len();
        Ok(value)
    }

    fn no_number(&self, word: &[u8]) -> JsonError {
        let word = harmless(&String::from_utf8_lossy(word), 40);
        self.invalid(&format!("`{word}` is not a value, or a number out of range"))
    }

    fn changed_number(&self, word: &[u8]) -> JsonError {
        let word = harmless(&String::from_utf8_lossy(word), 40);
        self.invalid(&format!(
            "`{word}` would become another number: whole numbers go from -2^63 to 2^64-1, others \
             have the digits of a double; send it as a string"
        ))
    }

    fn string(&mut self) -> Result<String, JsonError> {
        let rest = &self.text[self.at..];
        let mut end = 1;
        loop {
            match rest.get(end) {
                Some(b'\\') => end += 2,
                Some(b'"') => break,
                Some(_) => end += 1,
                None => return Err(self.invalid("a string does not end")),
            }
        }
        let string = serde_json::from_slice(&rest[..=end]).map_err(|error| {
            let error = error.to_string();
            // The library counts from the start of the string; this converts to the position in the
            // text.
            let why = match error.split(" at line ").next().unwrap_or_default() {
                half if half.contains("surrogate") || half.contains("end of hex escape") => {
                    "an unpaired surrogate is not a character"
                }
                other => other,
            };
            self.invalid(&format!("a string cannot be read: {why}"))
        })?;
        self.at += end + 1;
        Ok(string)
    }

    fn invalid(&self, why: &str) -> JsonError {
        let why = format!("{why}, at byte {}", self.at + 1);
        JsonError::Invalid { why: harmless(&why, MAX_MESSAGE) }
    }
}

/// Whether the parsed number equals the written one.
///
/// A fraction rounded to another fraction counts as equal: that is how doubles work. A whole
/// number, or a number that rounding makes whole, must be exact, since a schema can ask for
/// `integer`.
fn is_kept(word: &[u8], number: &Number) -> bool {
    match number.as_f64().filter(|_| number.is_f64()) {
        None => true,
        Some(double) if double.fract() != 0.0 => true,
        Some(double) => {
            let is_whole_spelling = !word.iter().any(|byte| b".eE".contains(byte));
            let is_same = decimal(word) == decimal(format!("{double:e}").as_bytes());
            is_same && (double == 0.0 || !is_whole_spelling)
        }
    }
}

/// The digits of a number without leading and trailing zeros, and the exponent of the last digit.
fn decimal(word: &[u8]) -> (Vec<u8>, i64) {
    let unsigned = word.strip_prefix(b"-").unwrap_or(word);
    let mut parts = unsigned.split(|byte| b"eE".contains(byte));
    let (mantissa, power) = (parts.next().unwrap_or_default(), parts.next().unwrap_or(b"0"));
    let mut halves = mantissa.split(|byte| *byte == b'.');
    let (whole, fraction) = (halves.next().unwrap_or_default(), halves.next().unwrap_or_default());
    let digits = [whole, fraction].concat();
    let Some(last) = digits.iter().rposition(|digit| *digit != b'0') else {
        return (Vec::new(), 0);
    };
    let first = digits.iter().take_while(|digit| **digit == b'0').count();
    // An exponent beyond i64 belongs to a number that no double represents.
    let power = std::str::from_utf8(power).ok().and_then(|text| text.parse::<i64>().ok());
    let below = i64::try_from(whole.len()).unwrap_or(i64::MAX);
    let last_power = i64::try_from(last).unwrap_or(i64::MAX).saturating_add(1);
    let power = power.unwrap_or(i64::MIN).saturating_add(below).saturating_sub(last_power);
    (digits[first..=last].to_vec(), power)
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
