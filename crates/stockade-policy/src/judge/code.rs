//! Judging code, commands and tool calls.

use serde_json::Value;
use stockade_text::Printable;

use crate::commands::entry_matches;
use crate::context::{Act, Context, Facts};
use crate::control::Control;
use crate::policy::{Policy, PolicyGate};
use crate::rules::{Action, Rule};
use crate::source::Basis;
use crate::verdict::{Effect, Verdict};

/// The longest reported tool name, in characters: the maximum length of a valid one.
const MOST_NAMED: usize = 128;

/// What happens to an act that no rule of a gate matches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unmatched {
    /// The gate's default action.
    Default,
    /// It passes: an allowlist already allows it.
    Passes,
}

impl Policy {
    /// Judges code before it runs.
    pub fn judge_code(&self, code: &str, language: &str, context: &Context) -> Verdict {
        let target = format!("{} code of {} bytes", Printable(language), code.len());
        self.judge_rules(Act::Code { code, language }, target, Unmatched::Default, context)
    }

    /// Judges a command before it starts: the allowlist first, then the rules.
    pub fn judge_command(&self, argv: &[String], context: &Context) -> Verdict {
        let target = Printable(&argv.join(" ")).to_string();
        let Some(program) = argv.first().filter(|program| !program.is_empty()) else {
            return Verdict {
                effect: Effect::Deny,
                control: Control::Commands,
                target,
                basis: Basis::BuiltIn { rule: "a command names a program" },
                why: "there is no program to start".to_owned(),
                change: "name one".to_owned(),
            };
        };
        let name = Printable(program).to_string();
        let mut listed = None;
        if let Some(list) = &self.commands {
            listed = list.value.iter().find(|entry| entry_matches(&entry.value, program));
            if listed.is_none() {
                return Verdict {
                    effect: Effect::Deny,
                    control: Control::Commands,
                    target,
                    basis: list.basis.clone(),
                    why: format!("command_allowlist does not name `{name}`"),
                    change: format!("add `{name}` to command_allowlist"),
                };
            }
        }
        let verdict = self.judge_rules(Act::Command { argv }, target, Unmatched::Default, context);
        match listed {
            Some(entry) if verdict.effect == Effect::Allow => Verdict {
                control: Control::Commands,
                basis: entry.basis.clone(),
                why: format!("command_allowlist names `{name}`, and {}", verdict.why),
                change: "remove it from command_allowlist to deny it".to_owned(),
                ..verdict
            },
            _ => verdict,
        }
    }

    /// Judges a tool call: the allowlist first, then the rules. If its arguments are unknown, rules
    /// about them do not match.
    pub fn judge_tool(&self, name: &str, arguments: Option<&Value>, context: &Context) -> Verdict {
        // A name from inside may be arbitrarily long; no real tool has such a name.
        let target = match name.char_indices().nth(MOST_NAMED) {
            Some((end, _)) => format!("{}…", Printable(&name[..end])),
            None => Printable(name).to_string(),
        };
        let Some(entry) = self.tools.value.iter().find(|tool| tool.value == name) else {
            return Verdict {
                effect: Effect::Deny,
                control: Control::Tools,
                why: format!("tool_allowlist does not name `{target}`"),
                change: format!("add `{target}` to tool_allowlist"),
                basis: self.tools.basis.clone(),
                target,
            };
        };
        let act = Act::Tool { name, arguments };
        let verdict = self.judge_rules(act, target, Unmatched::Passes, context);
        if verdict.effect != Effect::Allow {
            return verdict;
        }
        Verdict {
            control: Control::Tools,
            basis: entry.basis.clone(),
            why: format!("tool_allowlist names `{}`", verdict.target),
            change: "remove it from tool_allowlist to deny it".to_owned(),
            ..verdict
        }
    }

    /// The strictest verdict of all gates; of equal ones the first gate's.
    fn judge_rules(
        &self,
        act: Act<'_>,
        target: String,
        unmatched: Unmatched,
        context: &Context,
    ) -> Verdict {
        let facts = Facts::new(act, context);
        let mut strictest: Option<Ruling> = None;
        for gate in &self.gates {
            let ruling = rule_on(gate, &facts, unmatched);
            if strictest.as_ref().is_none_or(|held| ruling.effect > held.effect) {
                strictest = Some(ruling);
            }
        }
        let Ruling { effect, basis, why, change } = strictest.unwrap_or_else(Ruling::no_gate);
        Verdict { effect, control: Control::CodeRules, target, basis, why, change }
    }
}

struct Ruling {
    effect: Effect,
    basis: Basis,
    why: String,
    change: String,
}

impl Ruling {
    /// A policy always has a gate; without one everything is denied.
    fn no_gate() -> Ruling {
        Ruling {
            effect: Effect::Deny,
            basis: Basis::BuiltIn { rule: "denied by default" },
            why: "the policy has no rules to judge by".to_owned(),
            change: "check the policy again".to_owned(),
        }
    }

    fn failed(rule: &Rule, error: String) -> Ruling {
        Ruling {
            effect: Effect::Deny,
            basis: rule.basis.clone(),
            why: Printable(&format!(
                "rule `{}` could not be judged, and that denies: {error}",
                rule.name
            ))
            .to_string(),
            change: "correct the rule, or pass the field with the type it compares".to_owned(),
        }
    }
}

fn rule_on(gate: &PolicyGate, facts: &Facts<'_>, unmatched: Unmatched) -> Ruling {
    for rule in &gate.code.rules {
        match applies(rule, facts) {
            Ok(false) => {}
            Ok(true) => return matched(rule),
            Err(error) => return Ruling::failed(rule, error),
        }
    }
    match unmatched {
        Unmatched::Passes => Ruling {
            effect: Effect::Allow,
            basis: gate.code.default.basis.clone(),
            why: "no rule denies it".to_owned(),
            change: "add a rule that denies it".to_owned(),
        },
        Unmatched::Default => by_default(gate),
    }
}

/// Whether a rule applies now. Checks the condition first: a rule about other code needs no clock.
fn applies(rule: &Rule, facts: &Facts<'_>) -> Result<bool, String> {
    if !rule.condition.holds(facts).map_err(|error| error.to_string())? {
        return Ok(false);
    }
    match (&rule.time, facts.now()) {
        (None, _) => Ok(true),
        (Some(time), Some(now)) => time.holds(*now).map_err(|error| error.to_string()),
        (Some(_), None) => Err("the time is not known".to_owned()),
    }
}

fn matched(rule: &Rule) -> Ruling {
    let effect = effect_of(rule.action);
    let message =
        if rule.message.is_empty() { String::new() } else { format!(": {}", rule.message) };
    let why = format!("rule `{}` ({}) matches{message}", rule.name, rule.action.as_str());
    let change = if effect.allows() {
        format!(
            "remove rule `{}`, or put a denying rule with a higher priority before it",
            rule.name
        )
    } else {
        format!("remove rule `{}`, or change what it looks at: {}", rule.name, looks_at(rule))
    };
    Ruling {
        effect,
        basis: rule.basis.clone(),
        why: Printable(&why).to_string(),
        change: Printable(&change).to_string(),
    }
}

fn looks_at(rule: &Rule) -> String {
    let condition = &rule.condition;
    format!("`{}` {} {}", condition.field, condition.operator.as_str(), condition.value)
}

fn by_default(gate: &PolicyGate) -> Ruling {
    let default = &gate.code.default;
    let effect = effect_of(default.value);
    let why = if gate.code.rules.is_empty() {
        format!("there are no rules and the default action is {}", default.value.as_str())
    } else {
        format!("no rule matches and the default action is {}", default.value.as_str())
    };
    let change = if effect.allows() {
        "add a rule that denies it, or set defaults.action to deny"
    } else {
        "add a rule that allows it, or set defaults.action to allow"
    };
    Ruling { effect, basis: default.basis.clone(), why, change: change.to_owned() }
}

fn effect_of(action: Action) -> Effect {
    match action {
        Action::Allow => Effect::Allow,
        Action::Audit => Effect::Audit,
        Action::Deny | Action::Block => Effect::Deny,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn long_tool_name_from_inside_is_shortened() {
        let policy = Policy::parse_str("p", "tool_allowlist: [fetch]", Path::new("/")).unwrap();
        let verdict = policy.judge_tool(&"\u{1b}".repeat(1 << 20), None, &Context::default());
        assert_eq!(verdict.effect, Effect::Deny);
        for text in [&verdict.target, &verdict.why, &verdict.change] {
            assert!(text.len() < 2000, "{} bytes", text.len());
        }
    }
}
