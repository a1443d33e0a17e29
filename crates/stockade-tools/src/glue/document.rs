//! The text that `help()` shows for a tool.

use serde_json::Value;
use stockade_policy::Printable;

use super::python::Parameter;
use crate::listed::Listed;

/// The most characters of a tool's description.
const MAX_DESCRIPTION: usize = 8000;

/// The most characters about one parameter, and about the result.
const MAX_PARAMETER: usize = 800;

/// The most characters of one value of an enumeration, and of a default.
const MAX_VALUE: usize = 40;

/// The most values of an enumeration.
const MAX_VALUES: usize = 20;

/// The most characters of the whole text: Python reads it at every start.
const MAX_DOCUMENT: usize = 32_000;

/// Description, parameters and result as text.
pub(super) fn document(tool: &Listed, parameters: &[Parameter<'_>]) -> String {
    let mut text = shown(tool.description.trim(), MAX_DESCRIPTION);
    if text.is_empty() {
        text = format!("The tool {}.", shown(&tool.name, MAX_PARAMETER));
    }
    if !parameters.is_empty() {
        text.push_str("\n\nParameters:");
    }
    for parameter in parameters {
        let line = about(parameter);
        if text.len() + line.len() > MAX_DOCUMENT {
            text.push_str("\n    …");
            break;
        }
        text.push_str("\n    ");
        text.push_str(&line);
    }
    if let Some(result) = tool.output_schema.as_ref().map(words).filter(|words| !words.is_empty()) {
        text.push_str("\n\nReturns: ");
        text.push_str(&on_one_line(&result, MAX_PARAMETER));
    }
    text
}

fn about(parameter: &Parameter<'_>) -> String {
    let mut line = on_one_line(parameter.name, MAX_VALUE);
    if !parameter.is_required {
        line.push_str(", optional");
    }
    let words = words(parameter.schema);
    if !words.is_empty() {
        line.push_str(": ");
        line.push_str(&on_one_line(&words, MAX_PARAMETER));
    }
    line
}

/// A schema's type, description, values and default as text.
fn words(schema: &Value) -> String {
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.clone(),
        Some(Value::Array(kinds)) => {
            kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        _ => String::new(),
    };
    let text = |key: &str| schema.get(key).and_then(Value::as_str).map(str::trim);
    let mut parts = vec![kind];
    parts.extend(text("description").or_else(|| text("title")).map(str::to_owned));
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let mut listed: Vec<String> = values.iter().take(MAX_VALUES).map(value).collect();
        if values.len() > MAX_VALUES {
            listed.push("…".to_owned());
        }
        parts.push(format!("One of {}.", listed.join(", ")));
    }
    parts.extend(schema.get("default").map(|default| format!("Default: {}.", value(default))));
    parts.retain(|part| !part.is_empty());
    parts.join(" - ")
}

fn value(value: &Value) -> String {
    on_one_line(&value.to_string(), MAX_VALUE)
}

/// Text without terminal control sequences, with its lines kept.
fn shown(text: &str, most: usize) -> String {
    let plain = text.replace("\r\n", "\n").replace('\t', "    ");
    let lines: Vec<String> = plain.split('\n').map(|line| Printable(line).to_string()).collect();
    cut(lines.join("\n"), most)
}

fn on_one_line(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    cut(Printable(&words.join(" ")).to_string(), most)
}

fn cut(text: String, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
