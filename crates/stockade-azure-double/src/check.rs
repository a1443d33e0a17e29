//! Refuses what the interface does not have.

use serde_json::{Map, Value};

/// Why a request is refused: a status and a message.
pub(crate) type Refusal = (u16, String);

/// The fields of an object, if all are known and the required ones are there.
pub(crate) fn fields<'v>(
    value: &'v Value,
    required: &[&str],
    optional: &[&str],
    place: &str,
) -> Result<&'v Map<String, Value>, Refusal> {
    let Some(object) = value.as_object() else {
        return Err((400, format!("{place} is not an object")));
    };
    for name in object.keys() {
        if !required.contains(&name.as_str()) && !optional.contains(&name.as_str()) {
            return Err((400, format!("{place} has the unknown field {name}")));
        }
    }
    match required.iter().find(|name| !object.contains_key(**name)) {
        Some(missing) => Err((400, format!("{place} lacks the field {missing}"))),
        None => Ok(object),
    }
}

/// The body of a create call.
pub(crate) fn create(body: &Value) -> Result<(), Refusal> {
    let optional = ["resources", "lifecycle", "labels", "environment", "egressPolicy"];
    let object = fields(body, &["sourcesRef"], &optional, "the body")?;
    let source = fields(&object["sourcesRef"], &["diskImage"], &[], "sourcesRef")?;
    fields(&source["diskImage"], &["name", "isPublic"], &[], "diskImage")?;
    if let Some(resources) = object.get("resources") {
        let resources = fields(resources, &["cpu", "memory"], &["disk"], "resources")?;
        quantity(&resources["cpu"], "m")?;
        quantity(&resources["memory"], "Mi")?;
    }
    if let Some(lifecycle) = object.get("lifecycle") {
        let kinds = ["autoSuspendPolicy", "autoDeletePolicy"];
        let lifecycle = fields(lifecycle, &[], &kinds, "lifecycle")?;
        if let Some(suspend) = lifecycle.get("autoSuspendPolicy") {
            fields(suspend, &["enabled"], &["interval", "mode"], "autoSuspendPolicy")?;
        }
        if let Some(delete) = lifecycle.get("autoDeletePolicy") {
            fields(delete, &["enabled"], &["deleteIntervalInSeconds"], "autoDeletePolicy")?;
        }
    }
    for name in ["labels", "environment"] {
        if let Some(pairs) = object.get(name) {
            let pairs = pairs.as_object().ok_or((400, format!("{name} is not an object")))?;
            if pairs.values().any(|value| !value.is_string()) {
                return Err((400, format!("{name} has a value that is not text")));
            }
        }
    }
    object.get("egressPolicy").map_or(Ok(()), egress)
}

/// An egress policy.
pub(crate) fn egress(policy: &Value) -> Result<(), Refusal> {
    let optional = ["hostRules", "rules", "trafficInspection"];
    let policy = fields(policy, &["defaultAction"], &optional, "egressPolicy")?;
    let action = |value: &Value| ["Allow", "Deny"].iter().any(|known| value == known);
    if !action(&policy["defaultAction"]) {
        return Err((400, "defaultAction is neither Allow nor Deny".to_owned()));
    }
    for rule in policy.get("hostRules").and_then(Value::as_array).into_iter().flatten() {
        let rule = fields(rule, &["pattern", "action"], &[], "a host rule")?;
        if !action(&rule["action"]) || !rule["pattern"].is_string() {
            return Err((400, "a host rule has another action or pattern".to_owned()));
        }
    }
    let kinds = ["Legacy", "Full", "Partial", "None"];
    match policy.get("trafficInspection") {
        Some(found) if !kinds.iter().any(|known| found == known) => {
            Err((400, "trafficInspection has another value".to_owned()))
        }
        _ => Ok(()),
    }
}

fn quantity(value: &Value, unit: &str) -> Result<(), Refusal> {
    let text = value.as_str().unwrap_or_default();
    let number = text.strip_suffix(unit).unwrap_or_default();
    match number.parse::<u64>() {
        Ok(number) if number > 0 => Ok(()),
        _ => Err((400, format!("{value} is not a quantity with the unit {unit}"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body() -> Value {
        json!({
            "sourcesRef": { "diskImage": { "name": "python-3.13", "isPublic": true } },
            "resources": { "cpu": "500m", "memory": "1024Mi" },
            "lifecycle": {
                "autoSuspendPolicy": { "enabled": true, "interval": 300, "mode": "Memory" },
                "autoDeletePolicy": { "enabled": true, "deleteIntervalInSeconds": 60 },
            },
            "labels": { "agent_id": "agent-1" },
            "environment": { "A": "b" },
            "egressPolicy": {
                "defaultAction": "Deny",
                "hostRules": [{ "pattern": "packages.example.net", "action": "Allow" }],
                "trafficInspection": "Full",
            },
        })
    }

    #[test]
    fn unknown_field_is_rejected_wherever_it_is() {
        assert_eq!(create(&body()), Ok(()));
        for place in [
            "",
            "/sourcesRef",
            "/sourcesRef/diskImage",
            "/resources",
            "/lifecycle",
            "/lifecycle/autoSuspendPolicy",
            "/lifecycle/autoDeletePolicy",
            "/egressPolicy",
            "/egressPolicy/hostRules/0",
        ] {
            let mut changed = body();
            let object = changed.pointer_mut(place).and_then(Value::as_object_mut).unwrap();
            object.insert("surprise".to_owned(), json!(1));
            let (status, message) = create(&changed).unwrap_err();
            assert_eq!(status, 400, "{place}");
            assert!(message.contains("the unknown field surprise"), "{place}: {message}");
        }
    }

    #[test]
    fn missing_field_and_another_value_are_rejected() {
        for (place, value, reason) in [
            ("/sourcesRef", json!({}), "sourcesRef lacks the field diskImage"),
            ("/egressPolicy", json!({}), "egressPolicy lacks the field defaultAction"),
            ("/egressPolicy/defaultAction", json!("deny"), "neither Allow nor Deny"),
            ("/egressPolicy/trafficInspection", json!("full"), "another value"),
            ("/egressPolicy/hostRules/0/action", json!("Log"), "another action"),
            ("/resources/cpu", json!("0.5"), "not a quantity with the unit m"),
            ("/resources/memory", json!("1Gi"), "not a quantity with the unit Mi"),
            ("/labels/agent_id", json!(1), "not text"),
            ("/environment/A", json!(1), "not text"),
        ] {
            let mut changed = body();
            *changed.pointer_mut(place).unwrap() = value;
            let (status, message) = create(&changed).unwrap_err();
            assert_eq!(status, 400, "{place}");
            assert!(message.contains(reason), "{place}: {message}");
        }
    }
}
