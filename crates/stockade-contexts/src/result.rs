//! What a call of a context shows: values as MIME data, and errors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// MIME types with their data, as the interpreter sends them: texts, base64 for pictures and
/// documents, and JSON.
pub type MimeBundle = BTreeMap<String, Value>;

/// One value that a call shows: that of its last expression, or one that it displayed.
///
/// A type without data is absent. The interpreter and its code choose all of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextResult {
    /// `text/plain`, without one pair of surrounding quotes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// `text/html`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// `text/markdown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub markdown: Option<String>,
    /// `image/svg+xml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub svg: Option<String>,
    /// `image/png` as base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub png: Option<String>,
    /// `image/jpeg` as base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jpeg: Option<String>,
    /// `application/pdf` as base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pdf: Option<String>,
    /// `text/latex`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latex: Option<String>,
    /// `application/json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    /// `application/javascript`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub javascript: Option<String>,
    /// A table: its columns by name, each a list. The MIME type is `e2b/data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// The values of a chart. The MIME type is `e2b/chart`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<Value>,
    /// All other MIME types by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: MimeBundle,
    /// Whether it is the value of the last expression.
    pub is_main_result: bool,
}

/// An exception that ended a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellError {
    /// The name of its class.
    pub name: String,
    /// Its text.
    pub value: String,
    /// The traceback, as Python prints it.
    pub traceback: String,
}

impl ContextResult {
    /// Sorts MIME data by type. Data of another kind than its type has, such as a picture that is
    /// not base64, goes to `extra`.
    pub fn of(data: MimeBundle, is_main_result: bool) -> ContextResult {
        let mut result = ContextResult { is_main_result, ..ContextResult::default() };
        for (mime, value) in data {
            let field = match mime.as_str() {
                "text/plain" => &mut result.text,
                "text/html" => &mut result.html,
                "text/markdown" => &mut result.markdown,
                "image/svg+xml" => &mut result.svg,
                "image/png" => &mut result.png,
                "image/jpeg" => &mut result.jpeg,
                "application/pdf" => &mut result.pdf,
                "text/latex" => &mut result.latex,
                "application/javascript" => &mut result.javascript,
                "application/json" => {
                    result.json = Some(value);
                    continue;
                }
                "e2b/data" => {
                    result.data = Some(value);
                    continue;
                }
                "e2b/chart" => {
                    result.chart = Some(value);
                    continue;
                }
                _ => {
                    result.extra.insert(mime, value);
                    continue;
                }
            };
            let is_binary = matches!(&*mime, "image/png" | "image/jpeg" | "application/pdf");
            match value {
                Value::String(text) if !is_binary => *field = Some(text),
                Value::String(text) => match base64(&text) {
                    Some(text) => *field = Some(text),
                    None => _ = result.extra.insert(mime, Value::String(text)),
                },
                other => _ = result.extra.insert(mime, other),
            }
        }
        result.text = result.text.map(unquoted);
        result
    }
}

/// The text without line breaks, if it is base64.
fn base64(text: &str) -> Option<String> {
    let joined: String = text.chars().filter(|it| !matches!(it, '\n' | '\r')).collect();
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let digits = joined.trim_end_matches('=');
    let is_whole = joined.len().is_multiple_of(4) && joined.len() - digits.len() <= 2;
    (is_whole && !digits.is_empty() && digits.bytes().all(is_digit)).then_some(joined)
}

/// The text of a string without its quotes.
fn unquoted(text: String) -> String {
    let quoted = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    match quoted('\'').or_else(|| quoted('"')) {
        Some(inner) => inner.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(data: Value) -> ContextResult {
        ContextResult::of(serde_json::from_value(data).unwrap(), true)
    }

    #[test]
    fn every_mime_type_has_its_field_and_others_are_extra() {
        let found = of(json!({
            "text/plain": "'a'", "text/html": "<b>", "text/markdown": "*", "image/svg+xml": "<svg>",
            "image/png": "aGk=\n", "image/jpeg": "aGkh", "application/pdf": "aA==",
            "text/latex": "$x$", "application/json": {"a": [1]},
            "application/javascript": "f()", "e2b/data": {"a": [1]}, "e2b/chart": {"type": "line"},
            "application/vnd.x": 1,
        }));
        assert_eq!(
            serde_json::to_value(&found).unwrap(),
            json!({
                "text": "a", "html": "<b>", "markdown": "*", "svg": "<svg>", "png": "aGk=",
                "jpeg": "aGkh", "pdf": "aA==", "latex": "$x$", "json": {"a": [1]},
                "javascript": "f()", "data": {"a": [1]}, "chart": {"type": "line"},
                "extra": {"application/vnd.x": 1}, "is_main_result": true,
            })
        );
    }

    #[test]
    fn one_pair_of_quotes_is_removed_from_the_text() {
        for (text, expected) in
            [("'a'", "a"), ("\"a\"", "a"), ("''a''", "'a'"), ("'", "'"), ("''", "")]
        {
            assert_eq!(of(json!({ "text/plain": text })).text.as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn picture_that_is_not_base64_and_text_that_is_no_text_are_extra() {
        for data in ["", "a", "ab=c", "ab===", "<svg>", "====", "aaaaa"] {
            let found = of(json!({ "image/png": data }));
            assert_eq!((found.png, found.extra["image/png"].as_str()), (None, Some(data)));
        }
        assert_eq!(of(json!({ "text/html": [1] })).extra["text/html"], json!([1]));
    }
}
