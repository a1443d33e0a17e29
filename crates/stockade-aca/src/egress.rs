//! The egress policy of a sandbox, from a policy and read back. Pure.

use serde_json::Value;
use stockade_policy::{
    Host, HostPattern, NetworkDefault, NetworkEntry, NetworkGate, Policy, Protocol,
};

use crate::AcaError;
use crate::wire::{EgressPolicy, HostRule};

/// Everything is inspected, so that what is not HTTP is held too.
const INSPECTION: &str = "Full";
const ALLOW: &str = "Allow";
const DENY: &str = "Deny";
/// The ports behind an entry that names none; the service's rules have no ports.
const WEB_PORTS: [u16; 2] = [80, 443];

/// The egress policy that holds the network clauses of a policy, or the clause that it cannot hold.
pub(crate) fn egress_policy(policy: &Policy) -> Result<EgressPolicy, AcaError> {
    let gates: Vec<&NetworkGate> = policy.gates.iter().map(|gate| &gate.network).collect();
    let opens = |gate: &&NetworkGate| gate.default.value == NetworkDefault::Allow;
    // Without a gate nothing is allowed.
    let is_open = !gates.is_empty() && gates.iter().all(opens);
    let mut rules = Vec::new();
    for gate in &gates {
        for entry in &gate.entries {
            let allowed = |other: &&NetworkGate| opens(other) || covers(other, &entry.host);
            if is_open || !gates.iter().all(allowed) {
                continue;
            }
            let rule = HostRule { pattern: pattern(entry)?, action: ALLOW.to_owned() };
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    let default_action = if is_open { ALLOW } else { DENY }.to_owned();
    let traffic_inspection = Some(INSPECTION.to_owned());
    Ok(EgressPolicy { default_action, host_rules: rules, rules: Vec::new(), traffic_inspection })
}

/// Whether an entry of a gate matches every host that a pattern matches.
fn covers(gate: &NetworkGate, pattern: &HostPattern) -> bool {
    let name = match pattern {
        HostPattern::Exact(Host::Name(name)) | HostPattern::Below(name) => Some(name.to_string()),
        HostPattern::Exact(Host::Address(_)) => None,
    };
    gate.entries.iter().any(|entry| match (&entry.host, &name) {
        (own, _) if own == pattern => true,
        (HostPattern::Below(base), Some(name)) => name.ends_with(&format!(".{base}")),
        _ => false,
    })
}

/// The pattern of an entry, in the service's words.
fn pattern(entry: &NetworkEntry) -> Result<String, AcaError> {
    let unsupported = |reason: &str, remedy| AcaError::Unsupported {
        what: format!("the entry {} of network_allowlist", entry.host),
        reason: reason.to_owned(),
        remedy,
    };
    if matches!(entry.host, HostPattern::Exact(Host::Address(_))) {
        let remedy = "name the host, or use a wall on this host";
        return Err(unsupported("the rules of the service match names", remedy));
    }
    if entry.ports != WEB_PORTS {
        let remedy = "leave the ports out, with network_ports unset, or use a wall on this host";
        return Err(unsupported("the rules of the service have no ports", remedy));
    }
    if entry.protocol != Protocol::Web {
        let remedy = "leave protocol out, or use a wall on this host";
        return Err(unsupported("the rules of the service have no protocols", remedy));
    }
    Ok(entry.host.to_string())
}

/// Compares the policy that the service stores with the requested one. The error names the first
/// difference.
pub(crate) fn compare(asked: &EgressPolicy, found: Option<&Value>) -> Result<(), AcaError> {
    let differs = |difference: String| Err(AcaError::EgressDiffers { difference });
    let Some(found) = found.filter(|found| !found.is_null()) else {
        return differs("it has none".to_owned());
    };
    let found: EgressPolicy = match serde_json::from_value(found.clone()) {
        Ok(found) => found,
        Err(error) => return differs(crate::call::harmless(&error.to_string())),
    };
    let shown = |text: &str| crate::call::harmless(text);
    if found.default_action != asked.default_action {
        let (found, asked) = (shown(&found.default_action), &asked.default_action);
        return differs(format!("the default action is {found} and not {asked}"));
    }
    if found.traffic_inspection != asked.traffic_inspection {
        let found = found.traffic_inspection.as_deref().unwrap_or("unset");
        return differs(format!("traffic inspection is {} and not {INSPECTION}", shown(found)));
    }
    if let Some(extra) = found.host_rules.iter().find(|rule| !asked.host_rules.contains(rule)) {
        return differs(format!(
            "it has the rule {} {}",
            shown(&extra.action),
            shown(&extra.pattern)
        ));
    }
    if let Some(lost) = asked.host_rules.iter().find(|rule| !found.host_rules.contains(rule)) {
        return differs(format!("it lacks the rule {} {}", lost.action, lost.pattern));
    }
    if !found.rules.is_empty() {
        return differs("it has rules that were not asked for".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    fn policy(text: &str) -> Policy {
        Policy::parse_str("p", text, Path::new("/srv")).unwrap()
    }

    fn of(text: &str) -> Value {
        serde_json::to_value(egress_policy(&policy(text)).unwrap()).unwrap()
    }

    #[test]
    fn egress_is_denied_and_each_listed_host_is_allowed() {
        assert_eq!(of("{}"), json!({"defaultAction": "Deny", "trafficInspection": "Full"}));
        let text =
            "network_allowlist: [packages.example.net, '*.GitHub.com', packages.example.net.]";
        let expected = json!({
            "defaultAction": "Deny",
            "hostRules": [
                {"pattern": "packages.example.net", "action": "Allow"},
                {"pattern": "*.github.com", "action": "Allow"},
            ],
            "trafficInspection": "Full",
        });
        assert_eq!(of(text), expected);
    }

    #[test]
    fn only_network_default_allow_opens_the_network() {
        let text =
            "{defaults: {network_default: allow}, network_allowlist: [packages.example.net]}";
        assert_eq!(of(text), json!({"defaultAction": "Allow", "trafficInspection": "Full"}));
    }

    #[test]
    fn combined_policies_allow_only_what_each_allows() {
        let first =
            policy("network_allowlist: [packages.example.net, '*.github.com', a.example.org]");
        let second =
            policy("network_allowlist: [api.github.com, '*.example.org', packages.example.net]");
        let both = first.combine(&second);
        let rules = egress_policy(&both).unwrap().host_rules;
        let patterns: Vec<&str> = rules.iter().map(|rule| rule.pattern.as_str()).collect();
        assert_eq!(patterns, ["packages.example.net", "a.example.org", "api.github.com"]);
        let open = policy("defaults: {network_default: allow}");
        let rules = egress_policy(&open.combine(&second)).unwrap();
        assert_eq!((rules.default_action.as_str(), rules.host_rules.len()), ("Deny", 3));
    }

    #[test]
    fn entry_that_the_service_cannot_express_is_refused_by_name() {
        for (text, reason) in [
            ("network_allowlist: ['203.0.113.7']", "match names"),
            ("network_allowlist: ['files.example.org:443']", "have no ports"),
            ("network_allowlist: ['files.example.org:8080']", "have no ports"),
            ("{network_ports: [443], network_allowlist: [packages.example.net]}", "have no ports"),
        ] {
            let error = egress_policy(&policy(text)).unwrap_err();
            assert!(matches!(error, AcaError::Unsupported { .. }), "{text}");
            assert!(error.to_string().contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn policy_that_is_read_back_must_be_the_same() {
        let asked = egress_policy(&policy("network_allowlist: [a.org, b.org]")).unwrap();
        let same = serde_json::to_value(&asked).unwrap();
        compare(&asked, Some(&same)).unwrap();
        let mut turned = same.clone();
        turned["hostRules"].as_array_mut().unwrap().reverse();
        compare(&asked, Some(&turned)).unwrap();
        let change = |path: &str, value: Value| {
            let mut changed = same.clone();
            changed[path] = value;
            compare(&asked, Some(&changed)).unwrap_err().to_string()
        };
        for (difference, expected) in [
            (change("defaultAction", json!("Allow")), "default action is Allow"),
            (change("trafficInspection", json!("None")), "traffic inspection is None"),
            (change("trafficInspection", Value::Null), "traffic inspection is unset"),
            (change("hostRules", json!([])), "lacks the rule Allow a.org"),
            (change("rules", json!([{"name": "x"}])), "rules that were not asked for"),
            (change("skipped", json!(true)), "unknown field"),
            (change("hostRules", json!("x")), "invalid type"),
        ] {
            assert!(difference.contains(expected), "{difference}");
        }
        let mut wider = same.clone();
        let rule = json!({"pattern": "evil.org", "action": "Allow"});
        wider["hostRules"].as_array_mut().unwrap().push(rule);
        assert!(compare(&asked, Some(&wider)).unwrap_err().to_string().contains("evil.org"));
        assert!(compare(&asked, None).unwrap_err().to_string().contains("it has none"));
        assert!(compare(&asked, Some(&Value::Null)).is_err());
    }
}
