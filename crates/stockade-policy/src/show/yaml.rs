//! Writes a JSON value as YAML that every parser reads the same way.

use std::fmt::Write;

use serde_json::Value;
use stockade_text::is_harmless;

/// The longest list that is written on one line, in characters.
const MAX_INLINE: usize = 80;

/// Writes a value as a YAML document.
pub(super) fn write(value: &Value) -> String {
    let mut out = String::new();
    block(&mut out, value, 0);
    out
}

fn block(out: &mut String, value: &Value, depth: usize) {
    let pad = "  ".repeat(depth);
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                out.push_str(&pad);
                entry(out, key, value, depth);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                out.push_str(&pad);
                out.push_str("- ");
                match item {
                    Value::Object(map) if !map.is_empty() => {
                        for (index, (key, value)) in map.iter().enumerate() {
                            if index > 0 {
                                out.push_str(&pad);
                                out.push_str("  ");
                            }
                            entry(out, key, value, depth + 1);
                        }
                    }
                    other => {
                        out.push_str(&inline(other));
                        out.push('\n');
                    }
                }
            }
        }
        other => {
            out.push_str(&pad);
            out.push_str(&inline(other));
            out.push('\n');
        }
    }
}

fn entry(out: &mut String, key: &str, value: &Value, depth: usize) {
    out.push_str(&text(key));
    let short = is_flat(value).then(|| inline(value)).filter(|line| line.len() <= MAX_INLINE);
    match (short, value) {
        (Some(line), _) => {
            out.push_str(": ");
            out.push_str(&line);
            out.push('\n');
        }
        (None, Value::Object(_) | Value::Array(_)) => {
            out.push_str(":\n");
            block(out, value, depth + 1);
        }
        (None, scalar) => {
            out.push_str(": ");
            out.push_str(&inline(scalar));
            out.push('\n');
        }
    }
}

/// Whether a value contains no mapping and no list inside a list.
fn is_flat(value: &Value) -> bool {
    let scalar = |value: &Value| !matches!(value, Value::Object(_) | Value::Array(_));
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.iter().all(scalar),
        _ => true,
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(string) => text(string),
        Value::Array(items) => {
            let parts: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", parts.join(", "))
        }
        Value::Object(map) => {
            let parts: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{}: {}", text(key), inline(value)))
                .collect();
            format!("{{{}}}", parts.join(", "))
        }
        other => other.to_string(),
    }
}

/// A string, quoted unless every parser reads it as a string.
fn text(string: &str) -> String {
    let first = string.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let rest = string.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c));
    let word = string.to_ascii_lowercase();
    let special = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    if first && rest && !special.contains(&word.as_str()) {
        return string.to_owned();
    }
    let mut quoted = String::from("\"");
    for character in string.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if is_harmless(c) && c != '\u{85}' && !is_noncharacter(c) => quoted.push(c),
            c => write!(quoted, "\\U{:08x}", u32::from(c)).expect("writing to a string succeeds"),
        }
    }
    quoted.push('"');
    quoted
}

/// Code points that YAML does not allow literally.
fn is_noncharacter(character: char) -> bool {
    u32::from(character) & 0xfffe == 0xfffe || ('\u{fdd0}'..='\u{fdef}').contains(&character)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_that_a_parser_could_misread_are_quoted() {
        for word in [
            "yes",
            "No",
            "true",
            "null",
            "1",
            "1.0",
            "",
            "a: b",
            "#x",
            "*",
            "~",
            "- x",
            "2026-01-01",
        ] {
            assert!(text(word).starts_with('"'), "{word}");
        }
        assert_eq!(text("api.openai.com"), "api.openai.com");
    }

    #[test]
    fn nested_values_keep_their_shape() {
        let value = json!({ "a": [{ "b": 1, "c": [] }, { "b": 2 }], "d": {}, "e": [80, 443] });
        assert_eq!(write(&value), "a:\n  - b: 1\n    c: []\n  - b: 2\nd: {}\ne: [80, 443]\n");
    }
}
