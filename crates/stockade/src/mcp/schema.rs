//! JSON Schemas of tools, as clients of several languages read them.

use std::sync::Arc;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// The schema of a type, in one piece: some clients do not follow references. Formats of Rust's
/// numbers are left out, because validators warn about formats that they do not know.
pub(super) fn of<T: JsonSchema>() -> Arc<Map<String, Value>> {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut value = serde_json::to_value(schema).unwrap_or_default();
    plain(&mut value);
    match value {
        Value::Object(mut schema) => {
            schema.shift_remove("title");
            schema.shift_remove("description");
            // A type without fields has no properties, and clients expect an object.
            schema.entry("type").or_insert_with(|| "object".into());
            schema.entry("properties").or_insert_with(|| Map::new().into());
            Arc::new(schema)
        }
        _ => Arc::new(Map::new()),
    }
}

fn plain(value: &mut Value) {
    match value {
        Value::Object(object) => {
            let is_number = object.get("format").and_then(Value::as_str).is_some_and(|format| {
                ["int", "uint", "float", "double"].iter().any(|number| format.starts_with(number))
            });
            if is_number {
                object.shift_remove("format");
            }
            // The line ends of our source.
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            object.values_mut().for_each(plain);
        }
        Value::Array(values) => values.iter_mut().for_each(plain),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only its schema is used")]
    struct Inner {
        /// How many.
        count: u32,
    }

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only its schema is used")]
    struct Outer {
        inner: Option<Inner>,
    }

    #[test]
    fn schema_is_one_piece_without_formats_of_rust() {
        let schema = Value::Object((*of::<Outer>()).clone());
        let text = schema.to_string();
        assert_eq!(schema["type"], json!("object"));
        assert!(!text.contains("$ref") && !text.contains("uint32"), "{text}");
        assert!(text.contains("How many."), "{text}");
    }
}
