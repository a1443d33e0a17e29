//! JSON Schema: checks arguments and results of tools.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};

use crate::json::{Bounds, measure};
use crate::words::harmless;

/// How large a schema may be.
const BOUNDS: Bounds = Bounds { bytes: 256 << 10, depth: 64 };

/// The most bytes of the automaton of one pattern.
const PATTERN_BYTES: usize = 1 << 20;

/// Values up to this many bytes get a detailed error. The library records every part that does not
/// fit, and a large value could consist of such parts.
const DETAILED: usize = 64 << 10;

/// The most characters of a path, of a list of names, and of a whole message.
const MAX_PATH: usize = 160;
const MAX_NAMES: usize = 300;
const MAX_MESSAGE: usize = 600;

/// Keywords that bring in properties from other schemas.
const ELSEWHERE: [&str; 8] =
    ["allOf", "anyOf", "oneOf", "if", "$ref", "$dynamicRef", "dependentSchemas", "dependencies"];

/// A compiled schema.
#[derive(Debug)]
pub(crate) struct Schema {
    validator: Validator,
    /// The properties that it names at the top level.
    names: Vec<String>,
    /// Whether it may have unlimited alternatives, which cannot be explained.
    is_tangled: bool,
}

impl Schema {
    /// Compiles a schema. Fetches nothing: its references must be local. Patterns match in time
    /// linear in the text, so patterns that need more are refused.
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

    /// Checks a value of so many bytes; messages call it `what`.
    pub(crate) fn check(&self, value: &Value, bytes: usize, what: &str) -> Result<(), String> {
        if self.validator.is_valid(value) {
            return Ok(());
        }
        // To explain why no alternative fits, the library visits all alternatives below, and
        // recursive references can make them unlimited.
        if bytes > DETAILED || self.is_tangled {
            let verb = if what == "result" { "does" } else { "do" };
            return Err(format!("the {what} {verb} not fit the schema of the tool"));
        }
        match self.validator.validate(value) {
            Ok(()) => Ok(()),
            Err(error) => Err(harmless(&self.explain(&error, what), MAX_MESSAGE)),
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

/// Keywords by which a schema refers to another part of itself.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// Keywords that introduce alternatives.
const ALTERNATIVES: [&str; 2] = ["anyOf", "oneOf"];

/// Whether one of the words is a key anywhere. Recursion is safe: the depth of a schema is bounded.
fn has_word(schema: &Value, words: &[&str]) -> bool {
    match schema {
        Value::Object(map) => {
            map.iter().any(|(key, value)| words.contains(&key.as_str()) || has_word(value, words))
        }
        Value::Array(list) => list.iter().any(|value| has_word(value, words)),
        _ => false,
    }
}

/// Closes the input schema of a tool: unknown properties are refused, unless the schema decides
/// otherwise.
pub(crate) fn closed(schema: Value) -> Result<Value, String> {
    let Value::Object(mut map) = schema else {
        return Err("is not a mapping; write `{type: object, properties: {}}` for none".to_owned());
    };
    if map.get("type").and_then(Value::as_str) != Some("object") {
        let why = "lacks `type: object`; the arguments of a tool are an object of named values";
        return Err(why.to_owned());
    }
    let is_decided = ["additionalProperties", "unevaluatedProperties", "patternProperties"]
        .iter()
        .any(|word| map.contains_key(*word));
    if is_decided || !map.contains_key("properties") {
        return Ok(Value::Object(map));
    }
    if !ELSEWHERE.iter().any(|word| map.contains_key(*word)) {
        map.insert("additionalProperties".to_owned(), Value::Bool(false));
    } else if knows_unevaluated(&map) {
        map.insert("unevaluatedProperties".to_owned(), Value::Bool(false));
    } else {
        let why = "does not decide about other properties, and its draft has no \
                   `unevaluatedProperties`; add `additionalProperties`";
        return Err(why.to_owned());
    }
    Ok(Value::Object(map))
}

/// Whether the schema's draft has `unevaluatedProperties`.
fn knows_unevaluated(map: &Map<String, Value>) -> bool {
    let draft = Draft::default().detect(&Value::Object(map.clone()));
    matches!(draft, Draft::Draft201909 | Draft::Draft202012)
}

fn mistake(error: &ValidationError<'_>) -> String {
    let place = path("schema", error.instance_path().as_str());
    let why = match error.kind() {
        ValidationErrorKind::Referencing(error) => {
            format!("has a reference that is not local: {error}; copy its target into `$defs`")
        }
        ValidationErrorKind::Format { format } if format == "regex" => format!(
            "has a pattern at `{place}` that cannot be used: {}; look-around and back-references are not supported",
            error.instance()
        ),
        _ => format!("is not a JSON Schema, at `{place}`: {}", error.masked()),
    };
    harmless(&why, MAX_MESSAGE)
}

/// A path in a value, such as `arguments.list[3].name`.
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
