//! Advice about tools that could not be called.

use stockade_policy::{Control, Denial};

use super::{Advice, Asked};

/// Advice for tools that nobody offered, where a flag would. Without a policy every tool that is
/// offered may be called, so one that may not was not offered.
pub(super) fn uncalled(denials: &[Denial], asked: &Asked) -> Option<String> {
    let is_tool = |denial: &Denial| denial.control == Control::Tools.as_str();
    if asked.advice != Advice::Flags || !denials.iter().any(is_tool) {
        return None;
    }
    Some("describe the tool in a file and offer it with --tools FILE".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::tests::asked;
    use super::*;

    #[test]
    fn tool_that_nobody_offered_names_the_flag_and_a_refused_host_does_not() {
        let denial = |control: Control| Denial {
            control: control.as_str().into(),
            rule: "r".to_owned(),
            target: "fetch".to_owned(),
            why: "tool_allowlist does not name `fetch`".to_owned(),
            how_to_allow: "h".to_owned(),
        };
        let hint = uncalled(&[denial(Control::Tools)], &asked("{}"));
        assert!(hint.is_some_and(|hint| hint.contains("--tools FILE")));
        assert_eq!(uncalled(&[denial(Control::NetworkHosts)], &asked("{}")), None);
    }
}
