//! JSON Schema: whether arguments and results are what a tool says they are.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};

use crate::json::{Bounds, measure};
use crate::words::harmless;

/// How large a schema may be.
const BOUNDS: Bounds = Bounds { bytes: 256 << 10, depth: 64 };

/// The most bytes that the automaton of one pattern takes.
const PATTERN_BYTES: usize = 1 << 20;

/// Values up to this many bytes are told in detail what is wrong with them. The library notes
/// every part that does not fit, and a large value could be made of little else.
const DETAILED: usize = 64 << 10;

/// The most characters of a path, of a list of names, and of a whole message.
const MAX_PATH: usize = 160;
const MAX_NAMES: usize = 300;
const MAX_SAID: usize = 600;

/// Words of a schema that bring in properties from elsewhere.
const ELSEWHERE: [&str; 8] =
    ["allOf", "anyOf", "oneOf", "if", "$ref", "$dynamicRef", "dependentSchemas", "dependencies"];

/// A schema that was understood.
#[derive(Debug)]
pub(crate) struct Schema {
    validator: Validator,
    /// The properties that it names at its top.
    names: Vec<String>,
    /// Whether it may have alternatives without end, which cannot be explained.
    is_tangled: bool,
}

impl Schema {
    /// Understands a schema. Nothing is fetched: what it refers to must be inside it. Patterns
    /// are matched in time that grows with the text only, so those that need more are refused.
    pub(crate) fn compile(schema: &Value) -> Result<Schema, String> {
        measure(schema, BOUNDS).map_err(|error| error.to_string())?;
        let patterns =
            PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES);
        let options = jsonschema::options().offline().with_pattern_options(patterns);
        let validator = options.build(schema).map_err(|error| mistake(&error))?;
        let properties = schema.get("properties").and_then(Value::as_object);
        let names = properties.map(|map| map.keys().cloned().collect()).unwrap_or_default();
        let is_tangled = has_word(schema, &REFERENCES) && has_word(schema, &ALTERNATIVES);
        Ok(Schema { validator, names, is_tangled })
    }

    /// Checks a value of so many bytes; `what` it is begins the message.
    pub(crate) fn check(&self, value: &Value, bytes: usize, what: &str) -> Result<(), String> {
        if self.validator.is_valid(value) {
            return Ok(());
        }
        // Why no alternative fits is asked of every alternative below it, and those of a reference
        // may have no end.
        if bytes > DETAILED || self.is_tangled {
            let verb = if what == "result" { "does" } else { "do" };
            return Err(format!("the {what} {verb} not fit the schema of the tool"));
        }
        match self.validator.validate(value) {
            Ok(()) => Ok(()),
            Err(error) => Err(harmless(&self.explain(&error, what), MAX_SAID)),
        }
    }

    fn explain(&self, error: &ValidationError<'_>, what: &str) -> String {
        let path = path(what, error.instance_path().as_str());
        let is_top = error.instance_path().as_str().is_empty();
        let takes = match self.names.as_slice() {
            [] if is_top => "; it takes none".to_owned(),
            names if is_top => format!("; it takes {}", quoted(names)),
            _ => String::new(),
        };
        match error.kind() {
            ValidationErrorKind::Type { kind } => {
                let expected = match kind {
                    TypeKind::Single(kind) => a(kind.as_str()).to_owned(),
                    TypeKind::Multiple(kinds) => {
                        let kinds: Vec<&str> = kinds.iter().map(|kind| a(kind.as_str())).collect();
                        kinds.join(" or ")
                    }
                };
                format!("`{path}` must be {expected}, not {}", kind_of(error.instance()))
            }
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                format!("`{path}` lacks `{}`{takes}", harmless(name, MAX_PATH))
            }
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                format!("`{path}` has {}, which the tool does not know{takes}", quoted(unexpected))
            }
            ValidationErrorKind::Enum { options } => {
                format!("`{path}` must be one of {}", harmless(&options.to_string(), MAX_NAMES))
            }
            ValidationErrorKind::Constant { expected_value } => {
                format!("`{path}` must be {}", harmless(&expected_value.to_string(), MAX_NAMES))
            }
            _ => error.masked_with(format!("`{path}`")).to_string(),
        }
    }
}

/// Words by which a schema refers to another part of itself.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// Words that name alternatives.
const ALTERNATIVES: [&str; 2] = ["anyOf", "oneOf"];

/// Whether one of the words is a key anywhere. The depth of a schema is bounded.
fn has_word(schema: &Value, words: &[&str]) -> bool {
    match schema {
        Value::Object(map) => {
            map.iter().any(|(key, value)| words.contains(&key.as_str()) || has_word(value, words))
        }
        Value::Array(list) => list.iter().any(|value| has_word(value, words)),
        _ => false,
    }
}

/// The input schema of a tool, closed: a property that it does not name is refused, unless it
/// says otherwise.
pub(crate) fn closed(schema: Value) -> Result<Value, String> {
    let Value::Object(mut map) = schema else {
        return Err("is not a mapping; write `{type: object, properties: {}}` for none".to_owned());
    };
    if map.get("type").and_then(Value::as_str) != Some("object") {
        let why =
            "does not say `type: object`; the arguments of a tool are an object of named values";
        return Err(why.to_owned());
    }
    let is_said = ["additionalProperties", "unevaluatedProperties", "patternProperties"]
        .iter()
        .any(|word| map.contains_key(*word));
    if is_said || !map.contains_key("properties") {
        return Ok(Value::Object(map));
    }
    if !ELSEWHERE.iter().any(|word| map.contains_key(*word)) {
        map.insert("additionalProperties".to_owned(), Value::Bool(false));
    } else if knows_unevaluated(&map) {
        map.insert("unevaluatedProperties".to_owned(), Value::Bool(false));
    } else {
        let why = "does not say what becomes of other properties, and its version has no word that \
                   would say it of all its parts; add `additionalProperties`";
        return Err(why.to_owned());
    }
    Ok(Value::Object(map))
}

/// Whether the schema's version has a word for properties that no part of it names.
fn knows_unevaluated(map: &Map<String, Value>) -> bool {
    let draft = Draft::default().detect(&Value::Object(map.clone()));
    matches!(draft, Draft::Draft201909 | Draft::Draft202012)
}

fn mistake(error: &ValidationError<'_>) -> String {
    let place = path("schema", error.instance_path().as_str());
    let why = match error.kind() {
        ValidationErrorKind::Referencing(error) => {
            format!("refers to something that is not in it: {error}; copy that into `$defs`")
        }
        ValidationErrorKind::Format { format } if format == "regex" => format!(
            "has a pattern at `{place}` that cannot be used: {}; look-around and back-references are not supported",
            error.instance()
        ),
        _ => format!("is not a JSON Schema, at `{place}`: {}", error.masked()),
    };
    harmless(&why, MAX_SAID)
}

/// A place in a value, such as `arguments.list[3].name`.
fn path(what: &str, pointer: &str) -> String {
    let mut path = what.to_owned();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            path.push_str(&format!("[{part}]"));
        } else {
            path.push('.');
            path.push_str(&part);
        }
    }
    harmless(&path, MAX_PATH)
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().take(30).map(|name| format!("`{name}`")).collect();
    harmless(&names.join(", "), MAX_NAMES)
}

/// A JSON type with its article.
fn a(kind: &str) -> &str {
    match kind {
        "array" => "an array",
        "boolean" => "a boolean",
        "integer" => "an integer",
        "number" => "a number",
        "object" => "an object",
        "string" => "a string",
        other => other,
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
