//! The requests that the service decided, each reported once.

use std::collections::BTreeMap;

use stockade_provider::DecidedRequest;

use crate::call::harmless;
use crate::wire::{Decision, EgressDecisions};

/// How often each decision was seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    allowed: BTreeMap<Decision, usize>,
    denied: BTreeMap<Decision, usize>,
}

impl Seen {
    /// The decisions that were not reported yet, oldest first according to their timestamps.
    pub(crate) fn take(&mut self, decisions: EgressDecisions) -> Vec<DecidedRequest> {
        let all = decisions.network_egress.unwrap_or_default();
        let mut new = fresh(&mut self.allowed, all.allowed, true);
        new.extend(fresh(&mut self.denied, all.denied, false));
        new.sort_by(|one, other| one.at.cmp(&other.at));
        new
    }
}

fn fresh(
    seen: &mut BTreeMap<Decision, usize>,
    found: Vec<Decision>,
    allowed: bool,
) -> Vec<DecidedRequest> {
    let mut now: BTreeMap<Decision, usize> = BTreeMap::new();
    let mut new = Vec::new();
    for decision in found {
        let count = now.entry(decision.clone()).or_default();
        *count += 1;
        if *count > seen.get(&decision).copied().unwrap_or(0) {
            new.push(request(decision, allowed));
        }
    }
    // A service that forgets old decisions must not make them new again.
    for (decision, count) in now {
        let most = seen.entry(decision).or_default();
        *most = count.max(*most);
    }
    new
}

fn request(decision: Decision, allowed: bool) -> DecidedRequest {
    let text = |field: Option<String>| field.map(|text| harmless(&text));
    let path = decision.path.map(|path| {
        // A query may contain secrets.
        harmless(path.split(['?', '#']).next().unwrap_or_default())
    });
    DecidedRequest {
        host: text(decision.host).unwrap_or_default(),
        method: text(decision.method),
        path,
        scheme: text(decision.scheme),
        at: text(decision.timestamp),
        allowed,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decisions(allowed: serde_json::Value, denied: serde_json::Value) -> EgressDecisions {
        let body = json!({ "networkEgress": { "allowed": allowed, "denied": denied } });
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn each_decision_is_reported_once_and_without_its_query() {
        let mut seen = Seen::default();
        let first = json!({"timestamp": "2", "host": "a.org", "method": "GET", "path": "/x?key=1"});
        let denied = json!({"timestamp": "1", "host": "b.org\n", "scheme": "https"});
        let new = seen.take(decisions(json!([first]), json!([denied])));
        let hosts: Vec<(&str, bool)> =
            new.iter().map(|it| (it.host.as_str(), it.allowed)).collect();
        assert_eq!(hosts, [("b.org\\u{a}", false), ("a.org", true)]);
        assert_eq!(new[1].path.as_deref(), Some("/x"));
        assert_eq!(seen.take(decisions(json!([first]), json!([denied]))), []);
        // The same request again is another decision.
        assert_eq!(seen.take(decisions(json!([first, first]), json!([denied]))).len(), 1);
        // Forgotten decisions do not come back.
        assert_eq!(seen.take(decisions(json!([]), json!([]))), []);
        assert_eq!(seen.take(decisions(json!([first]), json!([]))), []);
        assert_eq!(seen.take(EgressDecisions::default()), []);
    }
}
