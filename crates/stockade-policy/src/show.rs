//! Prints a policy as text, with every default filled in.

mod yaml;

use serde_json::{Map, Value, json};

use crate::limits::{LIMITS, Unit};
use crate::paths::Access;
use crate::policy::{
    Inspect, NetworkEntry, NetworkGate, Policy, PolicyGate, Protocol, Secret, SecretPlace,
    SecretSource, Workspace,
};
use crate::rules::Rule;

impl Policy {
    /// The whole policy as YAML that parses to the same policy.
    pub fn to_yaml(&self) -> String {
        yaml::write(&self.to_value())
    }

    /// The whole policy as a JSON value. It is a valid policy text too, unless a string contains a
    /// character that JSON allows literally and YAML only escaped, such as U+0099.
    pub fn to_value(&self) -> Value {
        let mut top = Map::new();
        let mut put = |key: &str, value: Value| top.insert(key.to_owned(), value);
        put("version", json!("2"));
        put("name", json!(self.name));
        if !self.description.is_empty() {
            put("description", json!(self.description));
        }
        put("isolation", json!(self.isolation.value.as_str()));
        put("defaults", self.defaults());
        put("limits", self.limits_section("limits", &[("exact", json!(self.limits.exact.value))]));
        put("filesystem", self.filesystem());
        let gate = self.gates.first();
        if let Some(gate) = gate {
            put("network_allowlist", entries(&gate.network));
            put("network_ports", json!(gate.network.ports.value));
        }
        let blocked = self.network_blocklist.iter().map(|entry| json!(entry.value.to_string()));
        put("network_blocklist", blocked.collect());
        put("secrets", self.secrets.iter().map(secret).collect());
        put("tool_allowlist", self.tools.value.iter().map(|tool| json!(tool.value)).collect());
        put("tool_arguments", json!(self.tool_arguments.value.as_str()));
        if let Some(commands) = &self.commands {
            let names = commands.value.iter().map(|command| json!(command.value));
            put("command_allowlist", names.collect());
        }
        let variables = self.environment.iter().map(|v| (v.name.clone(), json!(v.value)));
        put("environment", Value::Object(variables.collect()));
        if !self.seccomp.is_empty() {
            put("seccomp", self.seccomp.iter().map(|path| json!(path.value)).collect());
        }
        if let Some(gate) = gate {
            put("rules", gate.code.rules.iter().map(rule).collect());
        }
        if self.gates.len() > 1 {
            put("also", self.gates[1..].iter().map(also).collect());
        }
        Value::Object(top)
    }

    fn defaults(&self) -> Value {
        let gate = self.gates.first();
        let action = gate.map(|gate| gate.code.default.value.as_str());
        let network = gate.map(|gate| gate.network.default.value.as_str());
        let mut section = self.limits_section("defaults", &[("network_default", json!(network))]);
        if let Value::Object(map) = &mut section {
            map.shift_insert(0, "action".to_owned(), json!(action));
        }
        section
    }

    fn limits_section(&self, section: &str, more: &[(&str, Value)]) -> Value {
        let mut map = Map::new();
        for spec in LIMITS.iter().filter(|spec| spec.section == section) {
            if let Some(held) = self.limits.value(spec.limit) {
                map.insert(spec.key.to_owned(), number(spec.unit, held));
            }
        }
        map.extend(more.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        Value::Object(map)
    }

    fn filesystem(&self) -> Value {
        let mounts = |access: Access| -> Value {
            let chosen = self.mounts.iter().filter(|mount| mount.access == access);
            chosen.map(|mount| json!({ "host": mount.host, "guest": mount.guest })).collect()
        };
        let workspace = match &self.workspace.value {
            Workspace::Scratch => json!({ "mode": "scratch" }),
            Workspace::Nothing => json!({ "mode": "nothing" }),
            Workspace::Host { host, mode } => json!({ "host": host, "mode": mode.as_str() }),
        };
        let hide: Value = self.hide.iter().map(|hide| json!(hide.value)).collect();
        json!({
            "read": mounts(Access::Read),
            "write": mounts(Access::Write),
            "hide": hide,
            "workspace": workspace,
            "exact": self.files_exact.value,
        })
    }
}

fn number(unit: Unit, held: u64) -> Value {
    let text = unit.write(held);
    match text.parse::<u64>() {
        Ok(whole) => json!(whole),
        Err(_) => json!(text.parse::<f64>().expect("a unit writes digits and one point")),
    }
}

fn entries(gate: &NetworkGate) -> Value {
    gate.entries.iter().map(entry).collect()
}

fn entry(entry: &NetworkEntry) -> Value {
    let mut map = Map::new();
    map.insert("host".to_owned(), json!(entry.host.to_string()));
    // An entry without ports takes those of network_ports; an entry with an empty list got it from
    // an empty network_ports, and gets it again.
    if !entry.ports.is_empty() {
        map.insert("ports".to_owned(), json!(entry.ports));
    }
    if let Some(methods) = &entry.methods {
        map.insert("methods".to_owned(), methods.iter().map(|m| json!(m.as_str())).collect());
    }
    if let Some(paths) = &entry.paths {
        map.insert("paths".to_owned(), paths.iter().map(|path| json!(path.to_string())).collect());
    }
    if entry.inspect == Inspect::Requests {
        map.insert("inspect".to_owned(), json!(true));
    }
    match entry.protocol {
        Protocol::Web => {}
        Protocol::Tls | Protocol::Http | Protocol::Tcp => {
            map.insert("protocol".to_owned(), json!(entry.protocol.as_str()));
        }
    }
    Value::Object(map)
}

fn secret(secret: &Secret) -> Value {
    let from = match &secret.from {
        SecretSource::Environment(name) => format!("env:{name}"),
        SecretSource::File(path) => format!("file:{}", path.display()),
        SecretSource::Command(words) => format!("command:{}", words.join(" ")),
    };
    let hosts: Vec<String> = secret.hosts.iter().map(ToString::to_string).collect();
    let mut map = Map::new();
    map.insert("name".to_owned(), json!(secret.name));
    map.insert("from".to_owned(), json!(from));
    map.insert("hosts".to_owned(), json!(hosts));
    match &secret.place {
        SecretPlace::Header { name, format } => {
            map.insert("header".to_owned(), json!(name));
            map.insert("format".to_owned(), json!(format));
        }
        SecretPlace::Query { name } => _ = map.insert("query".to_owned(), json!(name)),
        SecretPlace::Basic => _ = map.insert("basic".to_owned(), json!(true)),
    }
    Value::Object(map)
}

fn rule(rule: &Rule) -> Value {
    let condition = &rule.condition;
    let mut map = Map::new();
    map.insert("name".to_owned(), json!(rule.name));
    let operator = condition.operator.as_str();
    let condition_map =
        json!({ "field": condition.field, "operator": operator, "value": condition.value });
    map.insert("condition".to_owned(), condition_map);
    if let Some(time) = &rule.time {
        let mut time_map = Map::new();
        let kind = if time.window.is_some() { "time_window" } else { "day_of_week" };
        time_map.insert("type".to_owned(), json!(kind));
        time_map.insert("timezone".to_owned(), json!(time.zone.name()));
        if let Some((start, end)) = time.window {
            time_map.insert("start_time".to_owned(), json!(start.to_string()));
            time_map.insert("end_time".to_owned(), json!(end.to_string()));
        }
        if !time.days.is_empty() {
            time_map.insert("days_of_week".to_owned(), json!(time.days));
        }
        map.insert("dynamic_condition".to_owned(), Value::Object(time_map));
    }
    map.insert("action".to_owned(), json!(rule.action.as_str()));
    map.insert("priority".to_owned(), json!(rule.priority));
    if !rule.message.is_empty() {
        map.insert("message".to_owned(), json!(rule.message));
    }
    Value::Object(map)
}

fn also(gate: &PolicyGate) -> Value {
    let rules: Value = gate.code.rules.iter().map(rule).collect();
    json!({
        "name": gate.name,
        "action": gate.code.default.value.as_str(),
        "network_default": gate.network.default.value.as_str(),
        "network_ports": gate.network.ports.value,
        "network_allowlist": entries(&gate.network),
        "rules": rules,
    })
}
