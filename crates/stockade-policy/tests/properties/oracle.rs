//! A reference implementation of the language: short, slow, over the policy's JSON. It shares no
//! code with the crate except the lists of built-in places.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;
use stockade_policy::{Access, DEVICES, SCRATCH, SETTINGS, SYSTEM};

use crate::vocabulary::{Asker, Level, Question};

/// A policy's answer: `allow`, `audit` or `deny`.
pub(crate) fn answer(policy: &Value, question: &Question) -> &'static str {
    let word = |allowed: bool| if allowed { "allow" } else { "deny" };
    match *question {
        Question::Path(path, access) => word(path_allowed(policy, path, access)),
        Question::Host(host, port) => word(host_allowed(policy, host, port, None)),
        Question::Request(host, port, method, path) => {
            word(host_allowed(policy, host, port, Some((method, path))))
        }
        Question::Address(host, port, address) => {
            word(address_allowed(policy, host, port, address))
        }
        Question::Command(program, asker) => {
            let listed = match policy.get("command_allowlist") {
                Some(list) => texts(Some(list)).iter().any(|entry| same_program(entry, program)),
                None => true,
            };
            let command = format!("{program} -l");
            let facts = [("action", "run_command"), ("command", command.as_str())];
            if listed { ruled(policy, &facts, asker, None) } else { "deny" }
        }
        Question::Tool(tool, query, asker) => {
            let listed = texts(policy.get("tool_allowlist")).contains(&tool);
            let mut facts = vec![("action", "call_tool"), ("tool_name", tool)];
            let whole = query.map(|query| format!(r#"{{"query":"{query}"}}"#));
            facts.extend(whole.as_deref().map(|whole| ("arguments", whole)));
            facts.extend(query.map(|query| ("arguments.query", query)));
            if listed { ruled(policy, &facts, asker, Some("allow")) } else { "deny" }
        }
        Question::Code(code, asker) => {
            let facts = [("action", "execute_code"), ("code", code), ("language", "python")];
            ruled(policy, &facts, asker, None)
        }
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn texts(value: Option<&Value>) -> Vec<&str> {
    list(value).iter().filter_map(Value::as_str).collect()
}

fn within(path: &str, place: &str) -> bool {
    path == place || path.starts_with(&format!("{place}/"))
}

/// The deepest named place decides; without one, the built-in places do.
fn path_allowed(policy: &Value, path: &str, access: Access) -> bool {
    let reading = access == Access::Read;
    let files = &policy["filesystem"];
    let workspace = match files["workspace"]["mode"].as_str() {
        None | Some("scratch" | "overlay" | "write") => true,
        Some("read") => reading,
        Some(_) => false,
    };
    let mut clause = vec![("/workspace", workspace)];
    for mount in list(files.get("read")) {
        clause.push((mount["guest"].as_str().unwrap(), reading));
    }
    for mount in list(files.get("write")) {
        clause.push((mount["guest"].as_str().unwrap(), true));
    }
    clause.extend(texts(files.get("hide")).into_iter().map(|place| (place, false)));
    clause.retain(|(place, _)| within(path, place));
    if let Some((_, allowed)) = clause.into_iter().max_by_key(|(place, _)| place.len()) {
        return allowed;
    }
    let any = |places: &[&str]| places.iter().any(|place| within(path, place));
    let own_processes = within(path, "/proc") && !path.contains("/root");
    any(&SCRATCH) || any(&DEVICES) || (reading && (any(&SYSTEM) || any(&SETTINGS) || own_processes))
}

fn same_program(entry: &str, program: &str) -> bool {
    // The vocabulary uses one of the search path's directories.
    entry == program || program == format!("/usr/bin/{entry}")
}

fn address(text: &str) -> Option<IpAddr> {
    text.trim_matches(['[', ']']).parse().ok()
}

fn covers(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(base) => address(host).is_none() && host.ends_with(&format!(".{base}")),
        None => pattern == host,
    }
}

fn blocked(policy: &Value, host: &str) -> bool {
    let lies_in = |address: IpAddr, entry: &str| {
        let (network, prefix) = entry.split_once('/').unwrap_or((entry, ""));
        let plain = match address {
            IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
            IpAddr::V4(_) => address,
        };
        match (plain, network.parse::<IpAddr>()) {
            (IpAddr::V4(address), Ok(IpAddr::V4(network))) => {
                let prefix: u32 = prefix.parse().unwrap_or(32);
                let mask = if prefix == 0 { 0 } else { u32::MAX << (32 - prefix) };
                u32::from(address) & mask == u32::from(network)
            }
            (IpAddr::V6(address), Ok(IpAddr::V6(network))) => {
                let prefix: u32 = prefix.parse().unwrap_or(128);
                u128::from(address) >> (128 - prefix) == u128::from(network) >> (128 - prefix)
            }
            _ => false,
        }
    };
    texts(policy.get("network_blocklist")).iter().any(|entry| match address(host) {
        Some(address) => lies_in(address, entry),
        None => covers(entry, host),
    })
}

fn is_metadata(host: &str) -> bool {
    ["metadata.google.internal", "169.254.169.254"].contains(&host)
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_private() && v4 != Ipv4Addr::new(169, 254, 169, 254),
        IpAddr::V6(v6) => v6.segments()[0] == 0x2001 && v6 != Ipv6Addr::UNSPECIFIED,
    }
}

fn ports_of(value: Option<&Value>) -> Option<Vec<u64>> {
    value.map(|ports| list(Some(ports)).iter().filter_map(Value::as_u64).collect())
}

/// An allowlist entry as pattern, ports and the rest.
fn entries(policy: &Value) -> Vec<(String, Vec<u64>, Value)> {
    let common = ports_of(policy.get("network_ports")).unwrap_or(vec![80, 443]);
    let mut found = Vec::new();
    for entry in list(policy.get("network_allowlist")) {
        let text = entry.as_str().or(entry["host"].as_str()).unwrap();
        let after_brackets = text.rfind(']').map_or(0, |at| at + 1);
        let (host, port) = match text[after_brackets..].split_once(':') {
            Some((rest, port)) => {
                (format!("{}{rest}", &text[..after_brackets]), Some(port.parse().unwrap()))
            }
            None => (text.to_owned(), None),
        };
        let ports = port.map(|port| vec![port]).or(ports_of(entry.get("ports")));
        found.push((host, ports.unwrap_or(common.clone()), entry.clone()));
    }
    found
}

fn host_allowed(policy: &Value, host: &str, port: u16, request: Option<(&str, &str)>) -> bool {
    if blocked(policy, host) || is_metadata(host) {
        return false;
    }
    let port = u64::from(port);
    let mut naming = entries(policy);
    naming.retain(|(pattern, ..)| covers(pattern, host));
    let closeness = |pattern: &str| (!pattern.starts_with('*'), pattern.len());
    let Some(best) = naming.iter().map(|(pattern, ..)| closeness(pattern)).max() else {
        let ports = ports_of(policy.get("network_ports")).unwrap_or(vec![80, 443]);
        let open = policy["defaults"]["network_default"] == "allow";
        return open && ports.contains(&port) && address(host).is_none_or(is_public);
    };
    naming.iter().any(|(pattern, ports, entry)| {
        let passes = request.is_none_or(|(method, path)| {
            let methods = texts(entry.get("methods"));
            let paths = texts(entry.get("paths"));
            (entry.get("methods").is_none() || methods.contains(&method))
                && (entry.get("paths").is_none() || paths.iter().any(|one| fits(one, path)))
        });
        closeness(pattern) == best && ports.contains(&port) && passes
    })
}

fn address_allowed(policy: &Value, host: &str, port: u16, text: &str) -> bool {
    let reached: IpAddr = text.parse().unwrap();
    let entries = entries(policy);
    let named = entries.iter().any(|(pattern, ..)| covers(pattern, host));
    let spelled_out = address(host) == Some(reached)
        || entries.iter().any(|(pattern, ports, entry)| {
            let open = entry.get("methods").is_none() && entry.get("paths").is_none();
            let literal = address(pattern) == Some(reached) && ports.contains(&u64::from(port));
            named && literal && open
        });
    host_allowed(policy, host, port, None)
        && !blocked(policy, text)
        && !is_metadata(text)
        && (is_public(reached) || spelled_out)
}

/// Whether a path pattern matches, segment by segment.
fn fits(pattern: &str, path: &str) -> bool {
    fn segments(pattern: &[&str], path: &[&str]) -> bool {
        match (pattern, path) {
            ([], []) => true,
            (["**", rest @ ..], _) => {
                (0..=path.len()).any(|skipped| segments(rest, &path[skipped..]))
            }
            (["*", rest @ ..], [first, others @ ..]) => !first.is_empty() && segments(rest, others),
            ([part, rest @ ..], [first, others @ ..]) => {
                let fits = match part.strip_suffix('*') {
                    Some(start) => first.starts_with(start),
                    None => part == first,
                };
                fits && segments(rest, others)
            }
            _ => false,
        }
    }
    let pattern: Vec<&str> = pattern.split('/').skip(1).collect();
    let path: Vec<&str> = path.split('/').skip(1).collect();
    segments(&pattern, &path)
}

/// Highest priority first, file order among equals, the first match decides, an error denies.
fn ruled(
    policy: &Value,
    facts: &[(&str, &str)],
    asker: Asker,
    unmatched: Option<&'static str>,
) -> &'static str {
    let mut rules: Vec<&Value> = list(policy.get("rules")).iter().collect();
    rules.sort_by_key(|rule| -rule["priority"].as_i64().unwrap());
    for rule in &rules {
        match holds(&rule["condition"], facts, asker) {
            Some(false) => continue,
            None => return "deny",
            Some(true) => {}
        }
        match (rule.get("dynamic_condition"), asker.now) {
            (Some(_), None) => return "deny",
            (Some(time), Some(now)) if !is_now(time, now) => continue,
            _ => return effect(rule["action"].as_str().unwrap()),
        }
    }
    let default = if rules.is_empty() { "allow" } else { "deny" };
    unmatched.unwrap_or(effect(policy["defaults"]["action"].as_str().unwrap_or(default)))
}

fn effect(action: &str) -> &'static str {
    match action {
        "allow" => "allow",
        "audit" => "audit",
        _ => "deny",
    }
}

fn holds(condition: &Value, facts: &[(&str, &str)], asker: Asker) -> Option<bool> {
    let field = condition["field"].as_str().unwrap();
    let (operator, value) = (condition["operator"].as_str().unwrap(), &condition["value"]);
    if field == "level" {
        return match (asker.level, operator) {
            (None, _) => Some(false),
            (Some(Level::Text(text)), "eq") => Some(value == text),
            (Some(Level::Text(_)), _) => None,
            (Some(Level::Number(_)), "eq") => Some(false),
            (Some(Level::Number(level)), "gt") => Some(level as f64 > value.as_f64().unwrap()),
            (Some(Level::Number(level)), _) => Some(level as f64 <= value.as_f64().unwrap()),
        };
    }
    let found = match field {
        "agent_id" => asker.agent,
        field => facts.iter().find(|(name, _)| *name == field).map(|(_, text)| *text),
    };
    let Some(found) = found else { return Some(false) };
    Some(match operator {
        "eq" => value == found,
        "ne" => value != found,
        "contains" => found.contains(value.as_str().unwrap()),
        "in" => list(Some(value)).iter().any(|item| item == found),
        "not_in" => !list(Some(value)).iter().any(|item| item == found),
        // The only expression in the vocabulary.
        "matches" => found.starts_with(value.as_str().unwrap().trim_start_matches('^')),
        other => panic!("{other} is not in the vocabulary"),
    })
}

fn is_now(time: &Value, now: i64) -> bool {
    let minute = now / 60 % 1440;
    // 1970-01-01 was a Thursday, the fourth day.
    let weekday = (now / 86_400 + 3) % 7 + 1;
    let minutes = |key: &str| -> Option<i64> {
        let (hours, minutes) = time[key].as_str()?.split_once(':')?;
        Some(hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?)
    };
    match (minutes("start_time"), minutes("end_time")) {
        (Some(start), Some(end)) if start <= end => start <= minute && minute < end,
        (Some(start), Some(end)) => minute >= start || minute < end,
        _ => list(time.get("days_of_week")).iter().any(|day| day.as_i64() == Some(weekday)),
    }
}
