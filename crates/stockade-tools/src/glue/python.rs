//! Tools as functions of Python.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use serde_json::Value;

use super::document::document;
use super::literal::literal;
use crate::listed::Listed;

/// What comes before the functions.
const HEAD: &str = include_str!("../../glue/listing.py");

/// How the names begin that the listing needs for itself.
const OWN: &str = "_stockade_";

/// Names that the listing offers beside the tools.
const TAKEN: [&str; 3] = ["call_tool", "ToolError", "ToolDenied"];

/// Words that cannot be names, in any version from 3.8 on.
const KEYWORDS: [&str; 36] = [
    "False",
    "None",
    "True",
    "__debug__",
    "and",
    "as",
    "assert",
    "async",
    "await",
    "break",
    "class",
    "continue",
    "def",
    "del",
    "elif",
    "else",
    "except",
    "finally",
    "for",
    "from",
    "global",
    "if",
    "import",
    "in",
    "is",
    "lambda",
    "nonlocal",
    "not",
    "or",
    "pass",
    "raise",
    "return",
    "try",
    "while",
    "with",
    "yield",
];

/// The most parameters of a function; what is beyond can be given by name. Python reads them
/// whenever it starts.
const MAX_PARAMETERS: usize = 1000;

/// One parameter of a function.
pub(super) struct Parameter<'t> {
    /// Its name in Python.
    pub(super) name: String,
    /// Its name in the schema.
    pub(super) property: &'t str,
    /// What the schema says about it.
    pub(super) schema: &'t Value,
    /// Whether a call must have it.
    pub(super) is_required: bool,
}

/// The module that holds all tools.
pub(super) fn listing(tools: &[Listed]) -> String {
    let mut text = HEAD.to_owned();
    for tool in tools {
        function(&mut text, tool, is_offered(tool, tools));
    }
    text
}

/// Whether a tool can be called by its own name: Python can write it, and no other tool's name
/// becomes the same.
fn is_offered(tool: &Listed, tools: &[Listed]) -> bool {
    let Some(name) = spelled(&tool.name) else { return false };
    let is_exact = tool.name == name;
    let rival =
        |other: &&Listed| other.name != tool.name && spelled(&other.name).as_ref() == Some(&name);
    is_exact || !tools.iter().any(|other| rival(&other))
}

/// A tool's name in Python, where it has one. Names with two leading underscores are Python's own.
fn spelled(name: &str) -> Option<String> {
    let name = name.replace(['.', '-', ':', '/'], "_");
    let is_free = !TAKEN.contains(&name.as_str()) && !name.starts_with("__");
    (is_name(&name) && is_free).then_some(name)
}

/// Whether a word can be a name beside those of the listing. Python reads other letters than those
/// of ASCII as something else at times, so they are left out.
fn is_name(word: &str) -> bool {
    let first = word.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let rest = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    first && rest && !KEYWORDS.contains(&word) && !word.starts_with(OWN)
}

/// A word that can be a name, as near as may be.
fn nearest(word: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let mut name: String = word.chars().map(plain).collect();
    if KEYWORDS.contains(&name.as_str()) || TAKEN.contains(&name.as_str()) {
        name.push('_');
    }
    // A definition called `__builtins__` would take all of them away.
    if !is_name(&name) || name.starts_with("__") {
        name.insert_str(0, "x_");
    }
    name
}

/// One tool as a definition. The name is taken back afterwards, so that a tool that is called like
/// something of Python's hides nothing.
fn function(text: &mut String, tool: &Listed, is_offered: bool) {
    let parameters = parameters(&tool.input_schema);
    let name = spelled(&tool.name).unwrap_or_else(|| nearest(&tool.name));
    let more = more(&tool.input_schema, &parameters);
    let signature = signature(&parameters, more.as_deref());
    let said: Vec<String> = parameters
        .iter()
        .map(|parameter| format!("{}: {}", literal(parameter.property), parameter.name))
        .collect();
    let needed: String = late(&parameters).map(|late| literal(late.property) + ", ").collect();
    let (called, said) = (literal(&tool.name), said.join(", "));
    let more = more.unwrap_or_else(|| "None".to_owned());
    let document = literal(&document(tool, &parameters));
    let mut put = |line: String| writeln!(text, "{line}").expect("writing to a text succeeds");
    put(format!("\n\ndef {name}({signature}):"));
    put(format!("    {document}"));
    put(format!("    return {OWN}call({called}, {{{said}}}, {more}, ({needed}))"));
    put(format!("\n\n{OWN}tools[{called}] = {name}"));
    if is_offered {
        put(format!("{OWN}offered[{}] = {name}", literal(&name)));
    }
    put(format!("del {name}"));
}

/// The parameters in the order of the schema, each with a name that no other has.
fn parameters(schema: &Value) -> Vec<Parameter<'_>> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Vec::new();
    };
    let required: HashSet<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    // Names that can stay as they are come first: nothing else takes them.
    let mut taken: HashSet<String> =
        properties.keys().filter(|key| is_name(key)).cloned().collect();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut found = Vec::new();
    for (property, schema) in properties.iter().take(MAX_PARAMETERS) {
        let mut name = property.clone();
        if !is_name(property) {
            let plain = nearest(property);
            name = plain.clone();
            let number = numbers.entry(plain.clone()).or_insert(1);
            while !taken.insert(name.clone()) {
                *number += 1;
                name = format!("{plain}_{number}");
            }
        }
        let is_required = required.contains(property.as_str());
        found.push(Parameter { name, property, schema, is_required });
    }
    found
}

/// The name of the parameter that takes all others, where there may be others: what the schema does
/// not list, and what has another name there.
fn more(schema: &Value, parameters: &[Parameter<'_>]) -> Option<String> {
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false))
        && schema.get("patternProperties").is_none();
    let listed = schema.get("properties").and_then(Value::as_object).map_or(0, |all| all.len());
    let is_same = listed == parameters.len() && parameters.iter().all(|p| p.name == p.property);
    if is_closed && is_same {
        return None;
    }
    let mut name = "more".to_owned();
    while parameters.iter().any(|parameter| parameter.name == name) {
        name.push('_');
    }
    Some(name)
}

/// Python wants no parameter without a default after one that has one.
fn signature(parameters: &[Parameter<'_>], more: Option<&str>) -> String {
    let mut is_optional = false;
    let mut parts = Vec::new();
    for parameter in parameters {
        is_optional |= !parameter.is_required;
        parts.push(match is_optional {
            true => format!("{}={OWN}unsaid", parameter.name),
            false => parameter.name.clone(),
        });
    }
    parts.extend(more.map(|more| format!("**{more}")));
    parts.join(", ")
}

/// The required parameters that have a default in Python.
fn late<'p, 't>(parameters: &'p [Parameter<'t>]) -> impl Iterator<Item = &'p Parameter<'t>> {
    let optional = parameters.iter().skip_while(|parameter| parameter.is_required);
    optional.filter(|parameter| parameter.is_required)
}
