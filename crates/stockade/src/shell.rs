//! Quoting of commands for users to copy.

use stockade_policy::{check_name, check_variable};

/// A word quoted for a shell.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain =
        |character: char| character.is_alphanumeric() || "_./-+@:,=%".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The words of a command line, quoted for a shell, with `…` for what may be the value of a secret.
pub(crate) fn shown_words(words: impl Iterator<Item = String>) -> Vec<String> {
    const FLAGS: [&str; 3] = ["--secret", "--env-secret", "--env"];
    let mut flag = None;
    let mut shown = Vec::new();
    for word in words {
        let joined = word.split_once('=').filter(|(name, _)| FLAGS.contains(name));
        let safe = match (flag, joined) {
            (Some(flag), _) => harmless(flag, &word),
            (None, Some((name, value))) => {
                let flag = FLAGS.into_iter().find(|flag| *flag == name).unwrap_or_default();
                format!("{name}={}", harmless(flag, value))
            }
            (None, None) => word.clone(),
        };
        flag = match flag {
            None => FLAGS.into_iter().find(|flag| *flag == word),
            Some(_) => None,
        };
        shown.push(shell_word(&safe));
    }
    shown
}

/// The value of an option about variables, without what may be the value of a secret.
fn harmless(flag: &str, written: &str) -> String {
    const SOURCES: [&str; 3] = ["env:", "file:", "command:"];
    let Some((name, value)) = written.split_once('=') else {
        let is_name = check_name(written).is_ok() && flag != "--secret";
        return if is_name { written.to_owned() } else { "…".to_owned() };
    };
    if check_name(name).is_err() {
        return "…".to_owned();
    }
    let is_shown = match flag {
        "--secret" => SOURCES.iter().any(|source| value.starts_with(source)),
        "--env" => check_variable(name).is_ok(),
        _ => false,
    };
    if is_shown { written.to_owned() } else { format!("{name}=…") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_of_a_secret_is_not_in_a_command_to_copy() {
        for (words, shown) in [
            ("--secret K=sk-live@a.test -- ls", "--secret 'K=…' -- ls"),
            ("--secret=K=sk-live@a.test x.py", "'--secret=K=…' x.py"),
            ("--secret sk-live x.py", "--secret '…' x.py"),
            ("--secret K=env:K@a.test ls", "--secret K=env:K@a.test ls"),
            ("--env-secret K=sk-live ls", "--env-secret 'K=…' ls"),
            ("--env-secret K --env A=b ls", "--env-secret K --env A=b ls"),
            ("--env GITHUB_TOKEN=sk-live ls", "--env 'GITHUB_TOKEN=…' ls"),
        ] {
            let given = words.split(' ').map(str::to_owned);
            assert_eq!(shown_words(given).join(" "), shown, "{words}");
        }
    }
}
