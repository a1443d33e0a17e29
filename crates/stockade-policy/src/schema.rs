//! A JSON Schema of the policy language, for editors.
//!
//! It describes shapes, units and bounds. Checking the policy itself reports what needs more than a
//! shape: host names, paths, contradictions between limits.

use serde_json::{Map, Value, json};

use crate::limits::{LIMITS, LimitSpec, Unit};
use crate::policy::{Isolation, NetworkDefault, ToolArguments};
use crate::rules::{Action, Operator};

/// The schema, draft 2020-12.
pub fn schema() -> Value {
    let mut top = object(vec![
        (
            "version",
            json!({ "enum": ["2", "2.0", "1", "1.0", 2, 1], "description": "Version of the language." }),
        ),
        ("name", text("What the policy is called.")),
        ("description", text("What the policy is for.")),
        (
            "isolation",
            words(&Isolation::ALL.map(Isolation::as_str), "The weakest wall that is accepted."),
        ),
        ("defaults", defaults()),
        ("limits", limits()),
        ("filesystem", filesystem()),
        (
            "network_allowlist",
            list(
                network_entry(),
                "Hosts that may be reached. The most specific entry decides about a host.",
            ),
        ),
        ("network_ports", ports("Ports for entries that name none.")),
        (
            "network_blocklist",
            list(
                json!({ "type": "string" }),
                "Names, addresses and ranges that are never reached.",
            ),
        ),
        (
            "secrets",
            list(secret(), "Values the gate puts into requests; they never enter the sandbox."),
        ),
        ("tool_allowlist", list(json!({ "type": "string" }), "Tools that code inside may call.")),
        (
            "tool_arguments",
            words(
                &ToolArguments::ALL.map(ToolArguments::as_str),
                "Whether the record of a call to a tool holds its arguments.",
            ),
        ),
        (
            "command_allowlist",
            list(
                json!({ "type": "string" }),
                "Executables that may be started; any in the root by default.",
            ),
        ),
        (
            "environment",
            json!({ "type": "object", "additionalProperties": { "type": "string" }, "description": "Environment variables inside." }),
        ),
        (
            "seccomp",
            json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }], "description": "Seccomp profiles that tighten the built-in one." }),
        ),
        ("sandbox_mounts", sandbox_mounts()),
        (
            "rules",
            list(
                rule(),
                "Judged before code, commands and tool calls; highest priority first, first match decides.",
            ),
        ),
        (
            "also",
            list(
                also(),
                "Further gates, each of which must allow as well; written when policies are combined.",
            ),
        ),
        ("inherit", json!({ "const": true, "description": "Accepted at its default only." })),
        ("scope", json!({ "type": "null", "description": "Accepted when empty only." })),
    ]);
    top.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    top.insert("title".to_owned(), json!("Stockade policy"));
    Value::Object(top)
}

fn object(properties: Vec<(&str, Value)>) -> Map<String, Value> {
    let properties: Map<String, Value> =
        properties.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let mut map = Map::new();
    map.insert("type".to_owned(), json!("object"));
    map.insert("properties".to_owned(), Value::Object(properties));
    map.insert("additionalProperties".to_owned(), json!(false));
    map
}

fn section(properties: Vec<(&str, Value)>, required: &[&str], description: &str) -> Value {
    let mut map = object(properties);
    if !required.is_empty() {
        map.insert("required".to_owned(), json!(required));
    }
    map.insert("description".to_owned(), json!(description));
    Value::Object(map)
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn words(words: &[&str], description: &str) -> Value {
    json!({ "enum": words, "description": description })
}

fn list(items: Value, description: &str) -> Value {
    json!({ "type": "array", "items": items, "description": description })
}

fn ports(description: &str) -> Value {
    list(json!({ "type": "integer", "minimum": 1, "maximum": 65535 }), description)
}

fn limit(spec: &LimitSpec) -> Value {
    let scale = spec.unit.scale();
    let bound = |held: u64| -> Value {
        let text = spec.unit.write(held);
        if held.is_multiple_of(scale) {
            json!(held / scale)
        } else {
            json!(text.parse::<f64>().ok())
        }
    };
    let whole = match spec.unit {
        Unit::Cpus | Unit::Seconds => "number",
        Unit::Mebibytes | Unit::Bytes | Unit::BytesPerSecond | Unit::Count => "integer",
    };
    let mut map = json!({
        "type": [whole, "null"],
        "minimum": bound(spec.min),
        "maximum": bound(spec.max),
        "description": spec.doc,
    });
    if let (Some(default), Value::Object(map)) = (spec.default, &mut map) {
        map.insert("default".to_owned(), bound(default));
    }
    map
}

fn limits_of(section: &str) -> Vec<(&'static str, Value)> {
    let chosen = LIMITS.iter().filter(|spec| spec.section == section);
    chosen.map(|spec| (spec.key, limit(spec))).collect()
}

fn defaults() -> Value {
    let actions = Action::ALL.map(Action::as_str);
    let network = [NetworkDefault::Deny, NetworkDefault::Allow].map(NetworkDefault::as_str);
    let mut keys = limits_of("defaults");
    keys.push(("action", words(&actions, "For code that no rule matches.")));
    keys.push(("network_default", words(&network, "For hosts that no entry names.")));
    keys.push((
        "max_tokens",
        json!({ "const": 4096, "description": "Accepted at its default only." }),
    ));
    keys.push((
        "confidence_threshold",
        json!({ "const": 0.8, "description": "Accepted at its default only." }),
    ));
    section(keys, &[], "Values that apply unless something more specific does.")
}

fn limits() -> Value {
    let mut keys = limits_of("limits");
    let exact = "Refuse a host where limits can only be approximated.";
    keys.push(("exact", json!({ "type": "boolean", "default": false, "description": exact })));
    section(keys, &[], "Resource limits.")
}

fn filesystem() -> Value {
    let mount = json!({ "anyOf": [
        text("A path that is the same on both sides."),
        section(
            vec![("host", text("Path on the host.")), ("guest", text("Absolute path inside."))],
            &["host", "guest"],
            "A host path and its path inside.",
        ),
    ]});
    let modes = ["overlay", "read", "write", "scratch", "nothing"];
    let workspace = section(
        vec![
            ("host", text("Directory on the host.")),
            ("mode", words(&modes, "What writing does.")),
        ],
        &[],
        "The working directory, /workspace.",
    );
    let exact = "Refuse a host where a clause about files can only be held approximately.";
    let hide = list(json!({ "type": "string" }), "Places inside where nothing is visible.");
    section(
        vec![
            ("read", list(mount.clone(), "Host paths that can be read.")),
            ("write", list(mount, "Host paths that can be changed.")),
            ("hide", hide),
            ("workspace", workspace),
            ("exact", json!({ "type": "boolean", "default": false, "description": exact })),
        ],
        &[],
        "Host files that are visible inside; all others are not.",
    )
}

fn sandbox_mounts() -> Value {
    let path =
        |description: &str| json!({ "type": ["string", "null"], "description": description });
    section(
        vec![
            ("input_dir", path("Directory mounted at /input, read-only.")),
            ("output_dir", path("Directory mounted at /output, writable.")),
        ],
        &[],
        "Two directories under fixed names.",
    )
}

fn network_entry() -> Value {
    let methods = list(json!({ "type": "string" }), "Methods that are allowed.");
    let paths = list(json!({ "type": "string" }), "Path patterns that are allowed.");
    let long = section(
        vec![
            ("host", text("Host, with or without a port; `*.` for any name below.")),
            ("ports", ports("Ports that are allowed.")),
            ("methods", methods),
            ("paths", paths),
            ("protocol", words(&["tls", "http", "tcp"], "Protocol; tls or http by default.")),
            ("inspect", flag("Whether the gate reads and records every request, also inside TLS.")),
        ],
        &["host"],
        "A host with conditions.",
    );
    json!({ "anyOf": [text("Host, with or without a port."), long] })
}

fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "default": false, "description": description })
}

fn secret() -> Value {
    section(
        vec![
            ("name", text("Variable inside that holds the placeholder.")),
            ("from", text("`env:NAME`, `file:PATH` or `command:PROGRAM ARGUMENT` on the host.")),
            ("hosts", list(json!({ "type": "string" }), "Hosts it is sent to.")),
            ("header", text("Header that carries it; Authorization by default.")),
            ("format", text("Value of the header; `{}` is the secret.")),
            ("query", text("Parameter of the URL that carries it, in place of a header.")),
            ("basic", flag("Whether basic authentication carries it, in place of a header.")),
        ],
        &["name", "from", "hosts"],
        "One secret.",
    )
}

fn rule() -> Value {
    let operators = Operator::ALL.map(Operator::as_str);
    let condition = section(
        vec![
            (
                "field",
                text(
                    "code, language, command, agent_id, session_id, action, tool_name, arguments, arguments.NAME, or a field of the caller's context.",
                ),
            ),
            ("operator", words(&operators, "How the field is compared.")),
            ("value", json!({ "description": "What it is compared with." })),
        ],
        &["field", "operator", "value"],
        "A comparison; a missing field matches nothing.",
    );
    let kinds = ["time_window", "day_of_week"];
    let nullable =
        |description: &str| json!({ "type": ["string", "null"], "description": description });
    let weekday = json!({ "type": "integer", "minimum": 1, "maximum": 7 });
    let mut dynamic = section(
        vec![
            ("type", words(&kinds, "What the condition checks.")),
            ("timezone", nullable("IANA name; UTC by default.")),
            ("start_time", nullable("HH:MM, the first minute of the window.")),
            ("end_time", nullable("HH:MM, the first minute after the window.")),
            (
                "days_of_week",
                json!({ "type": ["array", "null"], "items": weekday, "description": "1 is Monday." }),
            ),
            ("window", json!({ "type": "null", "description": "Accepted when empty only." })),
            ("limit", json!({ "type": "null", "description": "Accepted when empty only." })),
        ],
        &["type"],
        "When the rule applies, by the host's clock.",
    );
    if let Value::Object(map) = &mut dynamic {
        map.insert("type".to_owned(), json!(["object", "null"]));
    }
    section(
        vec![
            ("name", text("The rule's name.")),
            ("condition", condition),
            (
                "action",
                words(
                    &Action::ALL.map(Action::as_str),
                    "allow and audit run, deny and block do not.",
                ),
            ),
            (
                "priority",
                json!({ "type": "integer", "default": 0, "description": "Higher is tried first." }),
            ),
            ("message", text("Message for the agent.")),
            ("dynamic_condition", dynamic),
            ("override", json!({ "const": false, "description": "Accepted at its default only." })),
        ],
        &["name", "condition", "action"],
        "One rule.",
    )
}

fn also() -> Value {
    let network = [NetworkDefault::Deny, NetworkDefault::Allow].map(NetworkDefault::as_str);
    section(
        vec![
            ("name", text("The policy it came from.")),
            ("action", words(&Action::ALL.map(Action::as_str), "For code that no rule matches.")),
            ("rules", list(rule(), "As in the policy itself.")),
            ("network_default", words(&network, "For hosts that no entry names.")),
            ("network_allowlist", list(network_entry(), "As in the policy itself.")),
            ("network_ports", ports("Ports for entries that name none.")),
        ],
        &[],
        "One further gate.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::SECTIONS;

    fn keys_of(value: &Value) -> Vec<String> {
        let properties = value.get("properties").and_then(Value::as_object);
        let mut keys: Vec<String> = properties.unwrap().keys().cloned().collect();
        keys.sort();
        keys
    }

    #[test]
    fn the_schema_has_exactly_the_keys_of_the_checker() {
        let schema = schema();
        let at = |pointer: &str| schema.pointer(pointer).unwrap().clone();
        for (section, known) in SECTIONS {
            let pointer = match *section {
                "the policy" => String::new(),
                "filesystem.workspace" => "/properties/filesystem/properties/workspace".to_owned(),
                "filesystem.read[]" => {
                    "/properties/filesystem/properties/read/items/anyOf/1".to_owned()
                }
                "network_allowlist[]" => "/properties/network_allowlist/items/anyOf/1".to_owned(),
                "rules[].condition" => "/properties/rules/items/properties/condition".to_owned(),
                "rules[].dynamic_condition" => {
                    "/properties/rules/items/properties/dynamic_condition".to_owned()
                }
                list if list.ends_with("[]") => {
                    format!("/properties/{}/items", list.trim_end_matches("[]"))
                }
                plain => format!("/properties/{plain}"),
            };
            let mut known: Vec<String> = known.iter().map(|key| (*key).to_owned()).collect();
            known.sort();
            assert_eq!(keys_of(&at(&pointer)), known, "{section}");
        }
    }
}
