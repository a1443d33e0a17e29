//! Judges a program by the policy before a sandbox is built.

use serde::Serialize;
use stockade_policy::{Basis, Context, Control, Effect, Policy, Verdict};
use stockade_provider::Program;

/// An act that was allowed by a rule that requires a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// The control that requires the record.
    pub control: &'static str,
    /// The policy line or fixed rule that decided.
    pub rule: String,
    /// What was allowed.
    pub target: String,
    /// Why it is recorded.
    pub why: String,
}

impl Audit {
    /// The record that a verdict requires, if any.
    pub(crate) fn of(verdict: &Verdict) -> Option<Audit> {
        (verdict.effect == Effect::Audit).then(|| Audit {
            control: verdict.control.as_str(),
            rule: verdict.basis.to_string(),
            target: verdict.target.clone(),
            why: verdict.why.clone(),
        })
    }
}

/// Judges a program by the rules. `command_allowlist` does not apply to the interpreter of code,
/// because the caller requested it.
pub(crate) fn judge(policy: &Policy, program: &Program, context: &Context) -> Verdict {
    match program {
        Program::Command { argv } => policy.judge_command(argv, context),
        Program::Code { language, code, .. } => {
            judge_code(policy, &language.to_string(), code, context)
        }
    }
}

/// Refuses code that is not UTF-8 if there are rules: a rule and an interpreter could read it
/// differently.
fn judge_code(policy: &Policy, language: &str, code: &[u8], context: &Context) -> Verdict {
    let has_rules = policy.gates.iter().any(|gate| !gate.code.rules.is_empty());
    match std::str::from_utf8(code) {
        Ok(text) => policy.judge_code(text, language, context),
        // Without rules only the default action decides, and it does not depend on the code.
        Err(_) if !has_rules => policy.judge_code("", language, context),
        Err(error) => Verdict {
            effect: Effect::Deny,
            control: Control::CodeRules,
            target: format!("{language} code of {} bytes", code.len()),
            basis: Basis::BuiltIn { rule: "code that rules judge is UTF-8 text" },
            why: format!("the code is not UTF-8 text from byte {} on", error.valid_up_to()),
            change: "save it as UTF-8".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use stockade_policy::Denial;
    use stockade_provider::Language;

    use super::*;

    fn ask(policy: &str, program: &Program) -> Result<Option<Audit>, Denial> {
        let policy = Policy::parse_str("p", policy, Path::new("/srv")).unwrap();
        let verdict = judge(&policy, program, &Context::default());
        verdict.denial().map_or_else(|| Ok(Audit::of(&verdict)), Err)
    }

    fn code(code: &[u8]) -> Program {
        let (name, arguments) = ("a.py".to_owned(), Vec::new());
        Program::Code { language: Language::Python, name, code: code.to_vec(), arguments }
    }

    const RULE: &str = "{defaults: {action: allow}, rules: [{name: no-eval, action: ACTION, \
         condition: {field: code, operator: contains, value: eval}}]}";

    #[test]
    fn matching_rule_denies_with_a_remedy() {
        let denial = ask(&RULE.replace("ACTION", "deny"), &code(b"eval('1')")).unwrap_err();
        assert_eq!(denial.control, "code_rules");
        assert!(denial.how_to_allow.contains("no-eval"), "{denial:?}");
        assert_eq!(ask(&RULE.replace("ACTION", "deny"), &code(b"print(1)")), Ok(None));
    }

    #[test]
    fn audit_rule_allows_the_program_and_leaves_a_record() {
        let audit = ask(&RULE.replace("ACTION", "audit"), &code(b"eval('1')")).unwrap().unwrap();
        assert!(audit.why.contains("no-eval"), "{audit:?}");
    }

    #[test]
    fn code_that_is_not_utf8_runs_only_without_rules() {
        assert_eq!(ask("{}", &code(b"\xff")), Ok(None));
        assert!(ask("defaults: {action: deny}", &code(b"\xff")).is_err());
        let denial = ask(&RULE.replace("ACTION", "deny"), &code(b"ab\xff")).unwrap_err();
        assert_eq!(denial.why, "the code is not UTF-8 text from byte 2 on");
    }

    #[test]
    fn command_allowlist_judges_commands_and_not_the_requested_interpreter() {
        let policy = "command_allowlist: [ls]";
        let command = |name: &str| Program::Command { argv: vec![name.to_owned()] };
        assert_eq!(ask(policy, &command("ls")), Ok(None));
        assert_eq!(ask(policy, &command("cat")).unwrap_err().control, "commands");
        assert_eq!(ask(policy, &code(b"print(1)")), Ok(None));
    }
}
