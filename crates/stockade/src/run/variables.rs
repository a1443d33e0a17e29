//! The variables that a run gets from the caller: `--env-file`, then `--env`, then `--env-secret`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use stockade_policy::{VariableError, check_secret_name, check_variable};

use crate::{Problem, load};

use super::trouble;

/// The arguments about variables.
pub(crate) struct Said<'a> {
    /// Each `--env NAME=VALUE` or `--env NAME`.
    pub(crate) variables: &'a [String],
    /// Each `--env-file`.
    pub(crate) files: &'a [PathBuf],
    /// Each `--env-secret`.
    pub(crate) secrets: &'a [String],
}

/// The variables of a run, and which of them may look like credentials because the caller named
/// them with `--env-secret`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Variables {
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) credentials: Vec<String>,
}

/// Reads the files and checks every name. `variable` looks up a variable of the caller.
pub(crate) fn variables(
    said: &Said<'_>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> anyhow::Result<Variables> {
    let mut found = Variables::default();
    for file in said.files {
        let text = load::variables(file)?;
        found.add_file(file, &text, said.secrets)?;
    }
    for said in said.variables {
        let (name, value) = match said.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (said.as_str(), None),
        };
        check_variable(name).map_err(|error| trouble::variable(&error))?;
        let value = match value {
            Some(value) => value,
            None => passed("--env", name, &variable)?,
        };
        found.environment.push((name.to_owned(), value));
    }
    for name in said.secrets {
        found.add_secret(name, &variable)?;
    }
    Ok(found)
}

impl Variables {
    fn add_file(&mut self, file: &Path, text: &str, secrets: &[String]) -> Result<(), Problem> {
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let place = format!("{}:{}", file.display(), number + 1);
            let line = line.strip_prefix("export ").unwrap_or(line);
            let Some((name, value)) = line.split_once('=') else {
                let message = format!("{place}: not a line NAME=VALUE");
                return Err(Problem::new(message, "write one variable in each line"));
            };
            let name = name.trim_end();
            // `--env-secret` checks the names that it has.
            if !secrets.iter().any(|secret| secret == name) {
                check_variable(name).map_err(|error| in_file(&place, &error))?;
            }
            self.environment.push((name.to_owned(), unquoted(value.trim()).to_owned()));
        }
        Ok(())
    }

    fn add_secret(
        &mut self,
        name: &str,
        variable: &impl Fn(&str) -> Option<OsString>,
    ) -> Result<(), Problem> {
        if let Some((name, _)) = name.split_once('=') {
            let message = format!("--env-secret {name}=…: a value on the command line is public");
            let remedy = format!(
                "set it as a variable here or in a file of --env-file, and write --env-secret {name}"
            );
            return Err(Problem::new(message, remedy));
        }
        check_secret_name(name)
            .map_err(|error| Problem::new(format!("--env-secret: {error}"), error.remedy()))?;
        if !self.environment.iter().any(|(own, _)| own == name) {
            let value = passed("--env-secret", name, variable)?;
            self.environment.push((name.to_owned(), value));
        }
        self.credentials.push(name.to_owned());
        Ok(())
    }
}

/// The value of a variable of the caller.
fn passed(
    flag: &str,
    name: &str,
    variable: &impl Fn(&str) -> Option<OsString>,
) -> Result<String, Problem> {
    let found = variable(name).ok_or_else(|| {
        let message = format!("{flag} {name}: the variable is not set here");
        let remedy = match flag {
            "--env" => format!("set it, or write --env {name}=VALUE"),
            _ => "set it, or put it into a file of --env-file".to_owned(),
        };
        Problem::new(message, remedy)
    })?;
    found.into_string().map_err(|_| {
        let message = format!("{flag} {name}: its value is not UTF-8 text");
        Problem::new(message, "pass it as a file")
    })
}

/// The error for a name in a file.
fn in_file(place: &str, error: &VariableError) -> Problem {
    let remedy = match error {
        VariableError::Credential { name } => format!(
            "pass it in with --env-secret {name} too, or remove the line: the program can read it \
             then, and send it to every host that it may reach"
        ),
        other => other.remedy().to_owned(),
    };
    Problem::new(format!("{place}: {error}"), remedy)
}

/// A value without the quotes around it. Nothing is expanded.
fn unquoted(value: &str) -> &str {
    let within = |quote| value.strip_prefix(quote)?.strip_suffix(quote);
    within('"').or_else(|| within('\'')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn ask(env: &[&str], secrets: &[&str], file: Option<&str>) -> Result<Variables, Problem> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("env");
        std::fs::write(&path, file.unwrap_or_default()).unwrap();
        let (env, secrets) = (owned(env), owned(secrets));
        let files: Vec<PathBuf> = file.map(|_| path).into_iter().collect();
        let said = Said { variables: &env, files: &files, secrets: &secrets };
        let found = variables(&said, |name| {
            ["HERE", "GITHUB_TOKEN"].contains(&name).then(|| "value".into())
        });
        found.map_err(|error| error.downcast().unwrap())
    }

    fn own(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn variable_is_set_or_passed_through() {
        let found = ask(&["A=b=c", "HERE", "EMPTY="], &[], None).unwrap();
        let expected = [own("A", "b=c"), own("HERE", "value"), own("EMPTY", "")];
        assert_eq!(found.environment, expected);
        assert!(found.credentials.is_empty());
    }

    #[test]
    fn forbidden_or_unset_variable_is_refused_with_a_remedy() {
        for (said, remedy) in [
            ("GITHUB_TOKEN", "--env-secret"),
            ("LD_PRELOAD=x", "workspace"),
            ("=x", "letters"),
            ("GONE", "--env GONE=VALUE"),
        ] {
            let problem = ask(&[said], &[], None).unwrap_err();
            assert!(problem.remedy.contains(remedy), "{said}: {}", problem.remedy);
        }
    }

    #[test]
    fn file_has_one_variable_in_each_line_and_expands_nothing() {
        let text = "# comment\n\nA=1\nexport B = \"two words\"\nC='$A'\nD=\n";
        let found = ask(&["A=3"], &[], Some(text)).unwrap();
        let expected =
            [own("A", "1"), own("B", "two words"), own("C", "$A"), own("D", ""), own("A", "3")];
        assert_eq!(found.environment, expected);
        let problem = ask(&[], &[], Some("A=1\nword\n")).unwrap_err();
        assert!(problem.message.ends_with("env:2: not a line NAME=VALUE"), "{problem}");
    }

    #[test]
    fn credential_passes_only_by_its_name_and_never_with_a_value() {
        let problem = ask(&[], &[], Some("OPENAI_API_KEY=k\n")).unwrap_err();
        assert!(problem.message.ends_with("env:1: `OPENAI_API_KEY` looks like a credential"));
        assert!(problem.remedy.contains("--env-secret OPENAI_API_KEY"), "{}", problem.remedy);
        let found = ask(&[], &["OPENAI_API_KEY", "GITHUB_TOKEN"], Some("OPENAI_API_KEY=k\n"));
        let found = found.unwrap();
        assert_eq!(found.environment, [own("OPENAI_API_KEY", "k"), own("GITHUB_TOKEN", "value")]);
        assert_eq!(found.credentials, ["OPENAI_API_KEY", "GITHUB_TOKEN"]);
        let problem = ask(&[], &["GITHUB_TOKEN=secret"], None).unwrap_err();
        assert!(!problem.message.contains("secret=") && !problem.message.contains("=secret"));
        for refused in ["LD_PRELOAD", "HTTP_PROXY", "GONE_TOKEN"] {
            assert!(ask(&[], &[refused], None).is_err(), "{refused}");
        }
    }
}
