//! What one policy allows that another does not.
//!
//! The answer errs on one side only: it may name something that cannot be used, but never omits
//! something that can.

mod files;
mod network;

use serde::Serialize;
use stockade_text::Printable;

use crate::control::Control;
use crate::limits::LIMITS;
use crate::policy::Policy;
use crate::rules::Action;

/// Something that the second policy allows and the first does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Widening {
    /// The control it belongs to.
    pub control: Control,
    /// What is newly allowed, in words.
    pub allows: String,
}

impl Policy {
    /// What `self` allows that `base` does not. Empty means that `self` is at most as wide.
    pub fn widenings(&self, base: &Policy) -> Vec<Widening> {
        let mut found = Vec::new();
        if self.isolation.value < base.isolation.value {
            let (new, old) = (self.isolation.value.as_str(), base.isolation.value.as_str());
            add(&mut found, Control::Isolation, format!("a {new} wall instead of {old}"));
        }
        self.wider_limits(base, &mut found);
        files::compare(base, self, &mut found);
        network::compare(base, self, &mut found);
        self.wider_secrets(base, &mut found);
        self.wider_programs(base, &mut found);
        found
    }

    fn wider_limits(&self, base: &Policy, found: &mut Vec<Widening>) {
        for spec in &LIMITS {
            let control = Control::Limit(spec.limit);
            let words = |held| format!("{} {}", spec.unit.write(held), spec.unit.as_str());
            match (base.limits.value(spec.limit), self.limits.value(spec.limit)) {
                (Some(old), Some(new)) if new > old => {
                    let allows = format!("{}, up from {}", words(new).trim_end(), words(old));
                    add(found, control, allows.trim_end().to_owned());
                }
                (Some(old), None) => {
                    add(found, control, format!("no limit, up from {}", words(old).trim_end()));
                }
                _ => {}
            }
        }
        if base.limits.exact.value && !self.limits.exact.value {
            add(found, Control::Isolation, "approximate limits (limits.exact is off)".to_owned());
        }
        if base.files_exact.value && !self.files_exact.value {
            let allows = "sockets that are refused approximately (filesystem.exact is off)";
            add(found, Control::HostSockets, allows.to_owned());
        }
    }

    fn wider_secrets(&self, base: &Policy, found: &mut Vec<Widening>) {
        for secret in &self.secrets {
            let known = base.secrets.iter().any(|old| {
                let covered = |host| old.hosts.iter().any(|pattern| pattern.covers(host));
                old.name == secret.name
                    && old.from == secret.from
                    && old.place == secret.place
                    && secret.hosts.iter().all(covered)
            });
            if !known {
                let hosts: Vec<String> = secret.hosts.iter().map(ToString::to_string).collect();
                let allows = format!("sending the secret {} to {}", secret.name, hosts.join(", "));
                add(found, Control::Secrets, allows);
            }
        }
    }

    fn wider_programs(&self, base: &Policy, found: &mut Vec<Widening>) {
        for tool in self.tools.value.iter().filter(|tool| !base.tools.value.contains(tool)) {
            add(found, Control::Tools, format!("calling {}", tool.value));
        }
        if self.tool_arguments.value > base.tool_arguments.value {
            add(found, Control::Tools, "recording the arguments of calls".to_owned());
        }
        match (&base.commands, &self.commands) {
            (Some(_), None) => add(found, Control::Commands, "starting any executable".to_owned()),
            (Some(old), Some(new)) => {
                for entry in new.value.iter().filter(|entry| !old.value.contains(entry)) {
                    add(found, Control::Commands, format!("starting {}", entry.value));
                }
            }
            (None, _) => {}
        }
        for variable in self.environment.iter().filter(|one| !base.environment.contains(one)) {
            add(found, Control::Environment, format!("the variable {}", variable.name));
        }
        for profile in base.seccomp.iter().filter(|one| !self.seccomp.contains(one)) {
            let allows = format!("system calls that {} denies", profile.value.display());
            add(found, Control::SeccompProfile, allows);
        }
        for gate in &base.gates {
            let harmless = gate.code.rules.is_empty() && gate.code.default.value == Action::Allow;
            let implied = self.gates.iter().any(|own| {
                // Listed tools pass a gate without rules, independent of its default action.
                let ruled_tools = !self.tools.value.is_empty() && !gate.code.rules.is_empty();
                let denies_all = own.code.rules.is_empty() && !own.code.default.value.runs();
                own.code == gate.code || (denies_all && !ruled_tools)
            });
            if !harmless && !implied {
                let allows = format!(
                    "code that the rules of `{}` may deny or record",
                    Printable(&gate.name)
                );
                add(found, Control::CodeRules, allows);
            }
        }
    }
}

pub(super) fn add(found: &mut Vec<Widening>, control: Control, allows: String) {
    let widening = Widening { control, allows };
    if !found.contains(&widening) {
        found.push(widening);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn widened(base: &str, new: &str) -> Vec<String> {
        let parse = |text: &str| Policy::parse_str("p", text, Path::new("/srv/p")).unwrap();
        parse(new).widenings(&parse(base)).into_iter().map(|found| found.allows).collect()
    }

    #[test]
    fn unhiding_a_settings_file_is_a_widening() {
        let found = widened("filesystem: {hide: [/etc/ssl]}", "{}");
        assert_eq!(found, ["read below /etc/ssl/certs"]);
    }

    #[test]
    fn turning_off_exact_files_is_a_widening() {
        let found = widened("filesystem: {exact: true}", "{}");
        assert_eq!(found, ["sockets that are refused approximately (filesystem.exact is off)"]);
    }

    #[test]
    fn denying_all_code_does_not_replace_a_rule_about_tools() {
        let ruled = "tool_allowlist: [t]\nrules: [{name: r, action: deny, condition: {field: tool_name, operator: eq, value: t}}]";
        let silent = "tool_allowlist: [t]\ndefaults: {action: deny}";
        assert_eq!(widened(ruled, silent), ["code that the rules of `unnamed` may deny or record"]);
        assert_eq!(widened(ruled, "defaults: {action: deny}"), Vec::<String>::new());
        assert_eq!(
            widened(silent, "defaults: {action: block}\ntool_allowlist: [t]"),
            Vec::<String>::new()
        );
    }
}
