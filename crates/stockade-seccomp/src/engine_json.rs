//! A profile in the JSON format of container engines.
//!
//! An engine compiles that format with libseccomp, which compares whole registers, cannot negate a
//! masked comparison, and knows no order of rules. So some refusals of a profile cannot be written:
//! the JSON allows at least what the profile allows, and [`wider`] lists the calls for which it
//! allows more. The guest installs the compiled profile itself in every program it starts, and the
//! kernel applies the stricter of the two.

use std::fmt::Write;

use crate::{Action, Architecture, Comparison, Condition, Profile, Rule, Syscall, Width};

/// The profile as the value of an engine's option `seccomp`, for one architecture.
pub fn engine_json(profile: &Profile, architecture: Architecture) -> String {
    let mut entries: Vec<String> = Vec::new();
    let calls = profile.rules.iter().filter(|(call, _)| call.number(architecture).is_some());
    let mut allowed = Vec::new();
    for (call, rules) in calls {
        match written(rules) {
            Written::Allowed => allowed.push(format!("\"{}\"", call.name())),
            Written::Refused(errno) => entries.push(entry(
                &format!("\"{}\"", call.name()),
                "SCMP_ACT_ERRNO",
                &[],
                Some(errno),
            )),
            Written::When(alternatives) => {
                let name = format!("\"{}\"", call.name());
                let one =
                    |conditions: &[Condition]| entry(&name, "SCMP_ACT_ALLOW", conditions, None);
                entries.extend(alternatives.into_iter().map(one));
            }
            Written::Default => {}
        }
    }
    entries.insert(0, entry(&allowed.join(","), "SCMP_ACT_ALLOW", &[], None));
    let architecture = match architecture {
        Architecture::X86_64 => "SCMP_ARCH_X86_64",
        Architecture::Aarch64 => "SCMP_ARCH_AARCH64",
    };
    format!(
        "{{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"architectures\":[\"{architecture}\"],\
         \"syscalls\":[{}]}}",
        entries.join(",")
    )
}

/// The calls of which the JSON allows more than the profile.
pub fn wider(profile: &Profile) -> impl Iterator<Item = Syscall> {
    let is_wider = |rules: &[Rule]| {
        let is_refusal = |rule: &Rule| !rule.action.allows() && !rule.conditions.is_empty();
        // A refusal before the last permission limits it, and is not written.
        let last = rules.iter().rposition(|rule| rule.action.allows());
        last.is_some_and(|last| rules[..last].iter().any(is_refusal))
    };
    profile.rules.iter().filter(move |(_, rules)| is_wider(rules)).map(|(call, _)| *call)
}

/// What the JSON has for one call.
enum Written<'p> {
    Allowed,
    /// Allowed if all conditions of any list hold.
    When(Vec<&'p [Condition]>),
    /// Refused with an error number that differs from the default.
    Refused(u16),
    /// The default action applies.
    Default,
}

fn written(rules: &[Rule]) -> Written<'_> {
    let permissions = || rules.iter().filter(|rule| rule.action.allows());
    if permissions().any(|rule| rule.conditions.is_empty()) {
        return Written::Allowed;
    }
    if permissions().next().is_some() {
        return Written::When(permissions().map(|rule| rule.conditions.as_slice()).collect());
    }
    match rules {
        [Rule { conditions, action: Action::Errno(errno) }] if conditions.is_empty() => {
            Written::Refused(*errno)
        }
        _ => Written::Default,
    }
}

fn entry(names: &str, action: &str, conditions: &[Condition], errno: Option<u16>) -> String {
    let arguments: Vec<String> = conditions.iter().map(argument).collect();
    let mut text = format!("{{\"names\":[{names}],\"action\":\"{action}\"");
    if !arguments.is_empty() {
        let _ = write!(text, ",\"args\":[{}]", arguments.join(","));
    }
    if let Some(errno) = errno {
        let _ = write!(text, ",\"errnoRet\":{errno}");
    }
    text.push('}');
    text
}

/// One condition. Of an argument that the kernel reads as 32 bits, libseccomp must compare only
/// these; only equality can be written so, and the other comparisons of 32 bits compare all.
fn argument(condition: &Condition) -> String {
    const LOW: u64 = 0xffff_ffff;
    let (operator, value, second) = match (condition.comparison, condition.width) {
        (Comparison::Equal(value), Width::Low32) => ("SCMP_CMP_MASKED_EQ", LOW, Some(value)),
        (Comparison::Equal(value), Width::Whole) => ("SCMP_CMP_EQ", value, None),
        (Comparison::MaskedEqual { mask, value }, Width::Low32) => {
            ("SCMP_CMP_MASKED_EQ", mask & LOW, Some(value))
        }
        (Comparison::MaskedEqual { mask, value }, Width::Whole) => {
            ("SCMP_CMP_MASKED_EQ", mask, Some(value))
        }
        (Comparison::NotEqual(value), _) => ("SCMP_CMP_NE", value, None),
        (Comparison::AtLeast(value), _) => ("SCMP_CMP_GE", value, None),
        (Comparison::AtMost(value), _) => ("SCMP_CMP_LE", value, None),
        (Comparison::Greater(value), _) => ("SCMP_CMP_GT", value, None),
        (Comparison::Less(value), _) => ("SCMP_CMP_LT", value, None),
    };
    let mut text = format!("{{\"index\":{},\"value\":{value}", condition.argument);
    if let Some(second) = second {
        let _ = write!(text, ",\"valueTwo\":{second}");
    }
    let _ = write!(text, ",\"op\":\"{operator}\"}}");
    text
}

#[cfg(test)]
#[path = "engine_json_tests.rs"]
mod tests;
