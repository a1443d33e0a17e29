//! Hints about tools that could not be called.

use stockade_policy::{Control, Denial};

use super::{Advice, Asked};

/// A hint for tools that no `--tools` file offers. Without a policy a program may call every
/// offered tool, so a denied one was not offered.
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
    fn hint_for_a_tool_that_is_not_offered_names_the_flag() {
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
