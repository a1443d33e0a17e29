//! The clauses that are judged per act: the policy's own, and those under `also`.

use stockade_text::{Kind, Node, Table};

use crate::policy::{MAX_GATES, NetworkDefault, NetworkGate, PolicyGate};
use crate::rules::{Action, CodeGate};
use crate::source::Sourced;

use super::keys;
use super::values::Decoder;

/// The mappings that contain the parts of a gate.
struct Parts<'n> {
    action: Option<&'n Node>,
    network_default: Option<&'n Node>,
}

impl Decoder<'_, '_> {
    pub(super) fn gates(&mut self, table: &Table<'_>, name: &str) -> Vec<PolicyGate> {
        let defaults = self.silent_section(table, "defaults");
        let parts = Parts {
            action: defaults.get("action"),
            network_default: defaults.get("network_default"),
        };
        let mut gates = vec![self.gate(table, &parts, name.to_owned())];
        let also = table.get("also").and_then(|node| self.list(node, "also"));
        for node in also.unwrap_or_default() {
            if gates.len() >= MAX_GATES {
                let message = format!("more than {MAX_GATES} policies combined");
                self.mistake(node.place, message, "merge some of them by hand");
                break;
            }
            let Some(table) = self.table(node, "also[]", keys::ALSO) else { continue };
            let parts = Parts {
                action: table.get("action"),
                network_default: table.get("network_default"),
            };
            let name = table.get("name").and_then(|node| self.text(node, "also[].name"));
            gates.push(self.gate(&table, &parts, name.unwrap_or_else(|| "unnamed".to_owned())));
        }
        gates
    }

    /// A section whose mistakes are already reported.
    fn silent_section<'n>(&self, table: &Table<'n>, key: &str) -> Table<'n> {
        match table.get(key).map(|node| (&node.kind, node.place)) {
            Some((Kind::Map(entries), place)) => Table::of(entries, place),
            _ => Table::empty(table.place),
        }
    }

    fn gate(&mut self, table: &Table<'_>, parts: &Parts<'_>, name: String) -> PolicyGate {
        let rules = self.rules(table);
        let otherwise = if rules.is_empty() {
            Sourced::built_in(Action::Allow, "code runs when a policy has no rules")
        } else {
            Sourced::built_in(Action::Deny, "with rules, what no rule matches is denied")
        };
        let actions = Action::ALL.map(|action| (action.as_str(), action));
        let explicit = parts.action.and_then(|node| {
            self.word(node, "the default action", &actions).map(|action| self.sourced(action, node))
        });
        let code = CodeGate { default: explicit.unwrap_or(otherwise), rules };
        PolicyGate { name, code, network: self.network(table, parts.network_default) }
    }

    fn network(&mut self, table: &Table<'_>, default: Option<&Node>) -> NetworkGate {
        let words = [NetworkDefault::Deny, NetworkDefault::Allow].map(|word| (word.as_str(), word));
        let explicit = default.and_then(|node| {
            self.word(node, "network_default", &words).map(|word| self.sourced(word, node))
        });
        let otherwise = Sourced::built_in(NetworkDefault::Deny, "denied by default");
        let ports = match table.get("network_ports") {
            Some(node) => {
                let ports = self.ports(node, "network_ports").unwrap_or_default();
                self.sourced(ports, node)
            }
            None => Sourced::built_in(vec![80, 443], "ports 80 and 443 by default"),
        };
        let entries = self.allowlist(table, &ports.value);
        NetworkGate { default: explicit.unwrap_or(otherwise), ports, entries }
    }
}
