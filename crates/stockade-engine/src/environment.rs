//! The variables of a program in addition to those that every sandbox sets.

use std::collections::BTreeSet;

use stockade_policy::{Policy, check_name, check_secret_name, check_variable};

use crate::RunError;

/// The longest value, in bytes; the same as in a policy.
const MAX_VALUE_BYTES: usize = 32 * 1024;

/// The policy's variables, the placeholders of its secrets, then the caller's. The caller cannot replace a variable of the policy;
/// the last of its own variables with the same name wins. Only the names in `credentials` may look
/// like credentials.
pub(crate) fn merged(
    policy: &Policy,
    placeholders: &[(String, String)],
    callers: Vec<(String, String)>,
    credentials: &[String],
) -> Result<Vec<(String, String)>, RunError> {
    let said = policy.environment.iter();
    let mut merged: Vec<(String, String)> =
        said.map(|variable| (variable.name.clone(), variable.value.clone())).collect();
    merged.extend(placeholders.iter().cloned());
    let own = merged.len();
    for (name, value) in callers {
        let is_secret = policy.secrets.iter().any(|secret| secret.name == name);
        if is_secret || merged[..own].iter().any(|(taken, _)| *taken == name) {
            return Err(RunError::VariableTaken { name });
        }
        match credentials.contains(&name) {
            true => check_secret_name(&name)?,
            false => check_variable(&name)?,
        }
        if value.contains('\0') || value.len() > MAX_VALUE_BYTES {
            return Err(RunError::VariableValue { name, limit: MAX_VALUE_BYTES });
        }
        match merged.iter_mut().find(|(before, _)| *before == name) {
            Some(before) => before.1 = value,
            None => merged.push((name, value)),
        }
    }
    Ok(merged)
}

/// The names of one program's own variables, as the record lists them. A name that no variable can
/// have is left out: the program does not start with it.
pub(crate) fn names(variables: &[(String, String)]) -> Vec<String> {
    let names = variables.iter().map(|(name, _)| name);
    let distinct: BTreeSet<&String> = names.filter(|name| check_name(name).is_ok()).collect();
    distinct.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn merge(policy: &str, callers: &[(&str, &str)]) -> Result<Vec<(String, String)>, RunError> {
        let policy = Policy::parse_str("p", policy, Path::new("/srv")).unwrap();
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        merged(&policy, &[], callers.iter().map(own).collect(), &["OPENAI_API_KEY".to_owned()])
    }

    #[test]
    fn policy_variables_come_first_and_the_callers_last_value_wins() {
        let found = merge("environment: {LANG: C}", &[("A", "1"), ("B", "2"), ("A", "3")]).unwrap();
        let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(found, [own("LANG", "C"), own("A", "3"), own("B", "2")]);
    }

    #[test]
    fn caller_cannot_replace_a_variable_of_the_policy() {
        let secret = "{secrets: [{name: KEY_A, from: 'env:X', hosts: [example.org]}], \
                       network_allowlist: [example.org]}";
        for (policy, name) in [("environment: {LANG: C}", "LANG"), (secret, "KEY_A")] {
            let error = merge(policy, &[(name, "x")]).unwrap_err();
            assert!(matches!(error, RunError::VariableTaken { .. }), "{error}");
        }
    }

    #[test]
    fn record_lists_each_name_once_and_no_invalid_one() {
        let own = |name: &str| (name.to_owned(), "value".to_owned());
        let variables = [own("PLAIN"), own("A_TOKEN"), own("A B"), own("A_TOKEN")];
        assert_eq!(names(&variables), ["A_TOKEN", "PLAIN"]);
    }

    #[test]
    fn credentials_loader_variables_and_invalid_values_are_refused() {
        let named = merge("{}", &[("OPENAI_API_KEY", "x")]).unwrap();
        assert_eq!(named.len(), 1, "a credential passes if the caller names it");
        for name in ["GITHUB_TOKEN", "LD_PRELOAD", "HTTP_PROXY", "A B"] {
            let error = merge("{}", &[(name, "x")]).unwrap_err();
            assert!(matches!(error, RunError::Variable(_)), "{name}: {error}");
        }
        for value in ["a\0b".to_owned(), "a".repeat(MAX_VALUE_BYTES + 1)] {
            let error = merge("{}", &[("A", &value)]).unwrap_err();
            assert!(matches!(error, RunError::VariableValue { .. }), "{error}");
        }
    }
}
