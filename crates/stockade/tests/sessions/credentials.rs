//! Credentials that one program of a session gets, and no other.

use std::path::Path;
use std::process::Command;

use crate::support::{Sessions, finish, finish_with};

const VALUE: &str = "canary-5d0c7f";

/// Prints a variable without its name in the command, which records contain.
const SHOW: &str = "import os; print(os.environ.get('API' + '_KEY', 'unset'))";

impl Sessions {
    /// A command of a caller who has the credential in a variable.
    fn with_value(&self, words: &[&str]) -> Command {
        let mut command = self.command(words);
        command.env("API_KEY", VALUE);
        command
    }
}

#[test]
fn credential_of_one_program_reaches_no_other_and_records_have_its_name_only() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let exec = ["exec", "--env-secret", "API_KEY", "one", "--", "python3", "-c", SHOW];
    assert_eq!(finish(sessions.with_value(&exec)).text(), format!("{VALUE}\n"));
    let next = ["exec", "one", "--", "python3", "-c", SHOW];
    assert_eq!(finish(sessions.with_value(&next)).text(), "unset\n", "the next program has none");

    let code = ["code", "--env-secret", "API_KEY", "one", "-"];
    let run = finish_with(sessions.with_value(&code), SHOW.as_bytes());
    assert_eq!(run.text(), format!("{VALUE}\n"));
    let called = ["code", "--context", "a", "--env-secret", "API_KEY", "one", "-"];
    let run = finish_with(sessions.with_value(&called), SHOW.as_bytes());
    assert_eq!(run.text(), format!("{VALUE}\n"));
    let called = ["code", "--context", "a", "one", "-"];
    let run = finish_with(sessions.with_value(&called), SHOW.as_bytes());
    assert_eq!(run.text(), "unset\n", "the next call has none");

    let made = ["context", "create", "--env-secret", "API_KEY", "one", "b"];
    finish(sessions.with_value(&made)).text();
    sessions.text(&["context", "restart", "one", "b"]);
    let run =
        finish_with(sessions.command(&["code", "--context", "b", "one", "-"]), SHOW.as_bytes());
    assert_eq!(run.text(), format!("{VALUE}\n"), "a context keeps its own");

    let file = sessions.place.file("keys.env", format!("API_KEY={VALUE}\nPLAIN=1\n"));
    let exec = ["--json", "exec", "--env-file", &file, "--env-secret", "API_KEY", "one", "--"];
    let report = sessions.run(&[&exec[..], &["true"]].concat()).text().to_owned();
    let told = [report, sessions.text(&["--json", "inspect", "one"])];
    let told = [&told[..], &[sessions.text(&["--json", "ps", "-a", "one"])]].concat();
    sessions.text(&["rm", "one"]);
    let record = record(&sessions.place.path().join("records"));
    assert!(told.iter().all(|text| !text.contains(VALUE)), "{told:?}");
    assert!(!record.contains(VALUE), "{record}");
    let named = |names: &str| record.matches(&format!("\"variables\":{names}")).count();
    // exec, code, the call, and the context at its start and at its restart.
    assert_eq!(named("[\"API_KEY\"]"), 5, "{record}");
    assert_eq!(named("[\"API_KEY\",\"PLAIN\"]"), 1, "{record}");
}

#[test]
fn credential_of_one_program_needs_its_name_and_no_value_on_the_command_line() {
    let Some(sessions) = Sessions::new() else { return };
    let policy = "version: \"2\"\nenvironment: {LANG: C}\n";
    let policy = sessions.place.file("policy.yaml", policy);
    sessions.text(&["create", "--name", "one", "--policy", &policy]);
    for (flags, message, remedy) in [
        (["--env", "API_KEY"], "looks like a credential", "--env-secret"),
        (
            ["--env-secret", "API_KEY=canary-5d0c7f"],
            "--env-secret API_KEY=…",
            "--env-secret API_KEY",
        ),
        (["--env-secret", "GONE_KEY"], "is not set here", "--env-file"),
        (["--env-secret", "LD_PRELOAD"], "LD_PRELOAD", "remove it"),
        (["--env-secret", "HTTPS_PROXY"], "HTTPS_PROXY", "network_allowlist"),
        (["--env-secret", "LANG"], "LANG", "name the variable"),
    ] {
        let words = [&["exec"], &flags[..], &["one", "--", "env"]].concat();
        let mut refused = sessions.with_value(&words);
        refused.env("HTTPS_PROXY", VALUE).env("LANG", VALUE);
        let run = finish(refused);
        assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{flags:?}: {run:?}");
        assert!(run.stderr.contains(message) && run.stderr.contains(remedy), "{}", run.stderr);
        assert!(!run.stderr.contains(VALUE), "{flags:?}: {}", run.stderr);
    }
}

/// The text of the only record below a directory.
fn record(place: &Path) -> String {
    let mut found = Vec::new();
    let mut directories = vec![place.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).expect("it is a directory") {
            let entry = entry.expect("it can be read");
            match entry.file_type().expect("it has a kind").is_dir() {
                true => directories.push(entry.path()),
                false if entry.path().extension().is_some_and(|it| it == "jsonl") => {
                    found.push(entry.path());
                }
                false => {}
            }
        }
    }
    let [record] = &found[..] else { panic!("one record, not {found:?}") };
    std::fs::read_to_string(record).expect("it is text")
}
