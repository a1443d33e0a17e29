//! The command line of xtask.

use anyhow::{Context, Result, bail};

use crate::suites::fuzz::FuzzOptions;

/// What `--help` says.
pub(crate) const HELP: &str = "\
cargo xtask check                       every suite of an ordinary run
cargo xtask test [--all]                the same; --all adds the slow suites
cargo xtask guards                      the guards alone, in about a second
cargo xtask probes                      the probes alone; STOCKADE_PROBES_JSON names a file for them
cargo xtask fuzz [TARGET] [--seconds N] one fuzz target or all, 10 seconds each unless said

STOCKADE_REQUIRE=a,b or =all turns a skip of those suites into a failure.";

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Help,
    Check,
    CheckAll,
    Guards,
    Probes,
    Fuzz(FuzzOptions),
}

/// Reads the words after `cargo xtask`.
pub(crate) fn parse(words: &[String]) -> Result<Task> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] | ["--help" | "-h" | "help"] => Ok(Task::Help),
        ["check" | "test"] => Ok(Task::Check),
        ["test", "--all"] => Ok(Task::CheckAll),
        ["guards"] => Ok(Task::Guards),
        ["probes"] => Ok(Task::Probes),
        ["fuzz", rest @ ..] => Ok(Task::Fuzz(parse_fuzz(rest)?)),
        [..] => bail!("no such task: {}\n{HELP}", words.join(" ")),
    }
}

fn parse_fuzz(words: &[&str]) -> Result<FuzzOptions> {
    let mut options = FuzzOptions::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if *word == "--seconds" {
            let number = words.next().context("--seconds needs a number")?;
            options.seconds =
                number.parse().with_context(|| format!("--seconds {number} is not a number"))?;
        } else if word.starts_with('-') || options.target.is_some() {
            bail!("cannot use {word} here\n{HELP}");
        } else {
            options.target = Some((*word).to_owned());
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn check_is_what_test_runs() {
        assert_eq!(parsed("check").unwrap(), parsed("test").unwrap());
        assert_eq!(parsed("test --all").unwrap(), Task::CheckAll);
    }

    #[test]
    fn fuzz_takes_a_target_and_a_time() {
        let options = FuzzOptions { target: Some("wire_frame".to_owned()), seconds: 60 };
        assert_eq!(parsed("fuzz --seconds 60 wire_frame").unwrap(), Task::Fuzz(options));
        assert_eq!(parsed("fuzz").unwrap(), Task::Fuzz(FuzzOptions::default()));
    }

    #[test]
    fn unknown_word_is_an_error_rather_than_ignored() {
        for line in ["chek", "test --al", "check extra", "fuzz a b", "fuzz --secs 3"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
