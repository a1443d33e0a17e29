//! Tools as Python functions.
//!
//! No Python code is generated here: the texts of tool authors appear only in literals.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use serde_json::{Value, json};

use super::document::document;
use super::literal::literal;
use crate::listed::Listed;

/// The text before the tools.
const HEAD: &str = include_str!("../../glue/listing.py");

/// The text after the tools.
const TAIL: &str = include_str!("../../glue/listing_end.py");

/// Names that the listing defines in addition to the tools.
const TAKEN: [&str; 3] = ["call_tool", "ToolError", "ToolDenied"];

/// Reserved words of all versions from 3.8 on.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// The most positional parameters; further ones can be passed by name.
const MAX_PARAMETERS: usize = 1000;

/// One parameter of a tool.
pub(super) struct Parameter<'t> {
    /// Its name in the schema.
    pub(super) name: &'t str,
    /// Its schema.
    pub(super) schema: &'t Value,
    /// Whether a call must have it.
    pub(super) is_required: bool,
}

/// The module with all tools.
pub(super) fn listing(tools: &[Listed]) -> String {
    let mut rivals: HashMap<String, usize> = HashMap::new();
    for name in tools.iter().filter_map(|tool| spelled(&tool.name)) {
        *rivals.entry(name).or_default() += 1;
    }
    let mut text = HEAD.to_owned();
    for tool in tools {
        // A name that is valid in Python unchanged takes precedence over names that have to be
        // changed.
        let is_free = |name: &String| *name == tool.name || rivals.get(name) == Some(&1);
        let name = spelled(&tool.name).filter(is_free);
        let parameters = parameters(&tool.input_schema);
        let shape = shape(&tool.input_schema, &parameters).to_string();
        let name = name.map_or_else(|| "None".to_owned(), |name| literal(&name));
        let (called, shape) = (literal(&tool.name), literal(&shape));
        let document = literal(&document(tool, &parameters));
        writeln!(text, "    ({called}, {name}, {shape}, {document}),")
            .expect("writing to a text succeeds");
    }
    text.push_str(TAIL);
    text
}

/// A tool's name in Python, if it has one. Names with two leading underscores are reserved for
/// Python. Letters beyond ASCII are excluded: Python normalises some of them to others.
fn spelled(name: &str) -> Option<String> {
    let name = name.replace(['.', '-', ':', '/'], "_");
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let rest = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let word = name.as_str();
    let is_taken = KEYWORDS.contains(&word) || TAKEN.contains(&word) || word.starts_with("__");
    (first && rest && !is_taken).then_some(name)
}

/// The parameters in the order of the schema.
fn parameters(schema: &Value) -> Vec<Parameter<'_>> {
    let required = schema.get("required").and_then(Value::as_array);
    let required: HashSet<&str> =
        required.into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut found = Vec::new();
    for (name, schema) in properties.into_iter().flatten().take(MAX_PARAMETERS) {
        found.push(Parameter { name, schema, is_required: required.contains(name.as_str()) });
    }
    found
}

/// Names, required names, and whether others are allowed.
fn shape(schema: &Value, parameters: &[Parameter<'_>]) -> Value {
    let all: Vec<&str> = parameters.iter().map(|parameter| parameter.name).collect();
    let required: Vec<&str> =
        parameters.iter().filter(|one| one.is_required).map(|one| one.name).collect();
    let listed = schema.get("properties").and_then(Value::as_object).map_or(0, |all| all.len());
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false))
        && schema.get("patternProperties").is_none()
        && listed == parameters.len();
    json!([all, required, !is_closed])
}
