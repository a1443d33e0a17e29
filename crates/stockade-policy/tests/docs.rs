//! The reference page documents every key and limit of the language.

#![expect(clippy::disallowed_methods, reason = "the reference is a file")]

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use stockade_policy::{LIMITS, schema};

#[test]
fn the_reference_names_every_key() {
    let reference = reference();
    let mut keys = BTreeSet::new();
    collect_keys(&schema(), &mut keys);
    assert!(keys.contains("network_allowlist") && keys.contains("days_of_week"), "{keys:?}");
    let named = |key: &str| {
        [format!("`{key}`"), format!(".{key}`")].iter().any(|one| reference.contains(one))
    };
    let missing: Vec<&String> = keys.iter().filter(|key| !named(key)).collect();
    assert!(missing.is_empty(), "docs/policy.md does not name {missing:?}");
}

#[test]
fn the_reference_has_bounds_and_default_of_every_limit() {
    let reference = reference();
    let mut missing = Vec::new();
    for spec in &LIMITS {
        let key = format!("`{}`", spec.key);
        let names_it = |line: &&str| line.split('|').any(|cell| cell.trim() == key);
        let row = reference.lines().find(names_it);
        let Some(row) = row else {
            missing.push(format!("no table row for {key}"));
            continue;
        };
        let default = spec.default.map(|held| spec.unit.write(held));
        for wanted in std::iter::once(spec.bounds()).chain(default) {
            if !row.contains(&wanted) {
                missing.push(format!("{key}: {wanted}"));
            }
        }
    }
    assert!(missing.is_empty(), "docs/policy.md lacks\n{}", missing.join("\n"));
}

fn reference() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policy.md");
    std::fs::read_to_string(path).expect("docs/policy.md exists")
}

/// The names of all properties, at every depth.
fn collect_keys(schema: &Value, keys: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            for (name, inner) in map {
                if let ("properties", Value::Object(properties)) = (name.as_str(), inner) {
                    keys.extend(properties.keys().cloned());
                    properties.values().for_each(|value| collect_keys(value, keys));
                } else {
                    collect_keys(inner, keys);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_keys(item, keys)),
        _ => {}
    }
}
