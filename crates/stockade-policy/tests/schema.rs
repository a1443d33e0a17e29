//! Validates real policies against the JSON Schema. The validator here implements the keywords that
//! the schema uses and fails on any other, so that none is ignored.

use std::path::Path;

use serde_json::{Value, json};
use stockade_policy::{Policy, Preset, schema};

/// Whether a value matches a schema.
fn fits(schema: &Value, value: &Value) -> bool {
    let Value::Object(keywords) = schema else { panic!("a schema is an object: {schema}") };
    keywords.iter().all(|(keyword, rule)| match keyword.as_str() {
        "$schema" | "title" | "description" | "default" => true,
        "type" => match rule {
            Value::Array(kinds) => kinds.iter().any(|kind| is_kind(kind, value)),
            kind => is_kind(kind, value),
        },
        "enum" => rule.as_array().is_some_and(|words| words.iter().any(|word| same(word, value))),
        "const" => same(rule, value),
        "anyOf" => rule.as_array().is_some_and(|rules| rules.iter().any(|rule| fits(rule, value))),
        "minimum" => value.as_f64().is_none_or(|number| Some(number) >= rule.as_f64()),
        "maximum" => value.as_f64().is_none_or(|number| Some(number) <= rule.as_f64()),
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| fits(rule, item))),
        "required" => value.as_object().is_none_or(|map| {
            let names = rule.as_array().into_iter().flatten().filter_map(Value::as_str);
            names.into_iter().all(|name| map.contains_key(name))
        }),
        "properties" => value.as_object().is_none_or(|map| {
            map.iter().all(|(key, value)| rule.get(key).is_none_or(|rule| fits(rule, value)))
        }),
        "additionalProperties" => value.as_object().is_none_or(|map| {
            let known = keywords.get("properties");
            let others =
                map.iter().filter(|(key, _)| known.is_none_or(|known| known.get(key).is_none()));
            others.into_iter().all(|(_, value)| *rule != json!(false) && fits(rule, value))
        }),
        other => panic!("the validator does not know {other}"),
    })
}

fn is_kind(kind: &Value, value: &Value) -> bool {
    match kind.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_u64() || value.is_i64(),
        other => panic!("the validator does not know the type {other:?}"),
    }
}

fn same(a: &Value, b: &Value) -> bool {
    a == b || (a.is_number() && a.as_f64() == b.as_f64())
}

#[test]
fn every_preset_and_its_full_form_fit_the_schema() {
    let schema = schema();
    for preset in Preset::ALL {
        let policy = Policy::parse_str("p", preset.text(), Path::new("/srv/p")).unwrap();
        assert!(fits(&schema, &policy.to_value()), "{}", preset.as_str());
    }
}

#[test]
fn a_combined_policy_with_every_clause_fits_the_schema() {
    let full = json!({
        "version": "2", "name": "full", "description": "d", "isolation": "vm",
        "defaults": { "action": "audit", "max_cpu": 0.5, "max_memory_mb": 64, "timeout_seconds": 1.5,
            "max_tool_calls": 3, "network_default": "allow", "max_tokens": 4096, "confidence_threshold": 0.8 },
        "limits": { "max_pids": 1, "max_disk_mb": 2, "exact": true, "max_cpu_seconds": null },
        "filesystem": { "read": ["/data", { "host": "./a", "guest": "/a" }], "hide": ["/data/x"],
            "workspace": { "host": ".", "mode": "read" } },
        "network_allowlist": ["example.org:443", { "host": "*.example.org", "ports": [22], "protocol": "tcp" }],
        "network_ports": [80], "network_blocklist": ["10.0.0.0/8"],
        "secrets": [{ "name": "K", "from": "env:K", "hosts": ["example.org"] }],
        "tool_allowlist": ["t"], "tool_arguments": "record", "command_allowlist": [], "environment": { "LANG": "C" },
        "seccomp": "./p.json", "sandbox_mounts": { "input_dir": "./in", "output_dir": null },
        "rules": [{ "name": "r", "condition": { "field": "code", "operator": "in", "value": ["a"] },
            "action": "block", "priority": -1, "message": "m", "override": false,
            "dynamic_condition": { "type": "day_of_week", "days_of_week": [1] } }],
        "also": [{ "name": "x", "action": "deny", "network_allowlist": [] }],
        "inherit": true, "scope": null,
    });
    assert!(fits(&schema(), &full));
    let policy = Policy::parse_str("p", &full.to_string(), Path::new("/srv/p")).unwrap();
    let other = Policy::parse_str("q", "{}", Path::new("/srv/p")).unwrap();
    assert!(fits(&schema(), &policy.combine(&other).to_value()));
}

#[test]
fn schema_refuses_what_the_checker_refuses_by_shape() {
    for broken in [
        json!({ "network_allow_list": [] }),
        json!({ "version": "3" }),
        json!({ "isolation": "strong" }),
        json!({ "defaults": { "max_cpu": "1" } }),
        json!({ "defaults": { "max_memory_mb": 1.5 } }),
        json!({ "defaults": { "timeout_seconds": 0 } }),
        json!({ "limits": { "max_pids": -1 } }),
        json!({ "limits": { "max_pids": 99_999_999 } }),
        json!({ "filesystem": { "read": [{ "host": "/x" }] } }),
        json!({ "filesystem": { "workspace": { "mode": "rw" } } }),
        json!({ "network_ports": [0] }),
        json!({ "network_allowlist": [{ "ports": [80] }] }),
        json!({ "secrets": [{ "name": "x" }] }),
        json!({ "command_allowlist": null }),
        json!({ "tool_arguments": "all" }),
        json!({ "limits": { "max_tool_depth": 0 } }),
        json!({ "limits": { "max_tool_bytes": 67_108_865 } }),
        json!({ "environment": { "A": 1 } }),
        json!({ "rules": [{ "name": "r", "action": "deny" }] }),
        json!({ "rules": [{ "name": "r", "action": "no", "condition": { "field": "a", "operator": "eq", "value": 1 } }] }),
        json!({ "inherit": false }),
        json!([]),
    ] {
        let parsed = Policy::parse_str("p", &broken.to_string(), Path::new("/srv/p"));
        assert!(parsed.is_err(), "the checker accepts {broken}");
        assert!(!fits(&schema(), &broken), "the schema accepts {broken}");
    }
}
