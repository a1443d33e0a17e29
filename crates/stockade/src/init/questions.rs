//! The three questions. Each is asked until its answer is valid.

use std::io::BufRead;

use clap::ValueEnum;
use stockade_policy::parse_host_port;

use crate::Problem;
use crate::args::{FirstPolicyArgs, WorkspaceMode};
use crate::render;
use crate::run::amount::{self, Amount};

const FILES: &str = "\
1. What may code do with this directory?
   overlay   see it; changes are dropped at the end
   read      see it
   write     change it
   scratch   not even see it
   [overlay]";
const HOSTS: &str = "2. Which hosts may it reach, separated by blanks? [none]";
const LIMITS: &str = "3. How much memory, how many processors, how long? [512m 1 60s]";

/// Asks what no flag answers.
pub(super) fn ask(
    mut args: FirstPolicyArgs,
    input: &mut impl BufRead,
) -> Result<FirstPolicyArgs, Problem> {
    if args.workspace.is_none() {
        args.workspace = Some(until_valid(FILES, input, mode)?);
    }
    if args.allow_host.is_empty() {
        args.allow_host = until_valid(HOSTS, input, hosts)?;
    }
    if args.memory.is_none() && args.cpus.is_none() && args.timeout.is_none() {
        let (memory, cpus, timeout) = until_valid(LIMITS, input, limits)?;
        (args.memory, args.cpus, args.timeout) = (memory, cpus, timeout);
    }
    Ok(args)
}

fn until_valid<T>(
    question: &str,
    input: &mut impl BufRead,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<T, Problem> {
    loop {
        render::talk(question);
        let mut line = String::new();
        let count = input.read_line(&mut line).map_err(|error| {
            Problem::new(format!("cannot read the answer: {error}"), "answer with flags and --yes")
        })?;
        if count == 0 {
            let message = "the input ended before every question was answered";
            return Err(Problem::new(message, "answer with flags and --yes"));
        }
        match parse(line.trim()) {
            Ok(answer) => return Ok(answer),
            Err(why) => render::talk(&why),
        }
    }
}

fn mode(answer: &str) -> Result<WorkspaceMode, String> {
    let answer = if answer.is_empty() { "overlay" } else { answer };
    WorkspaceMode::from_str(answer, true)
        .map_err(|_| format!("`{answer}` is not overlay, read, write or scratch"))
}

fn hosts(answer: &str) -> Result<Vec<String>, String> {
    let words = answer.split([' ', ',']).filter(|word| !word.is_empty() && *word != "none");
    words
        .map(|word| match parse_host_port(word) {
            // A wildcard is checked with the whole policy.
            Err(error) if !word.starts_with("*.") => Err(format!("`{word}`: {error}")),
            _ => Ok(word.to_owned()),
        })
        .collect()
}

type Limits = (Option<Amount>, Option<Amount>, Option<Amount>);

fn limits(answer: &str) -> Result<Limits, String> {
    let words: Vec<&str> = answer.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    if words.len() > 3 {
        return Err("write at most three: memory, processors and time, as in 512m 1 60s".to_owned());
    }
    let parse = |index: usize, parse: fn(&str) -> Result<Amount, amount::AmountError>| {
        let Some(word) = words.get(index) else { return Ok(None) };
        let explain =
            |error: amount::AmountError| format!("`{word}`: {error}, such as {}", error.example);
        parse(word).map(Some).map_err(explain)
    };
    Ok((parse(0, amount::size)?, parse(1, amount::cpus)?, parse(2, amount::time)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(input: &str) -> Result<FirstPolicyArgs, Problem> {
        ask(FirstPolicyArgs::default(), &mut input.as_bytes())
    }

    #[test]
    fn empty_answers_are_the_defaults() {
        let args = asked("\n\n\n").unwrap();
        assert_eq!(args.workspace, Some(WorkspaceMode::Overlay));
        assert!(args.allow_host.is_empty() && args.memory.is_none() && args.timeout.is_none());
    }

    #[test]
    fn invalid_answer_is_asked_again() {
        let args = asked("all\nread\nhttp://x y\nexample.org, api.example.org:8443\n5\n1g 2\n");
        let args = args.unwrap();
        assert_eq!(args.workspace, Some(WorkspaceMode::Read));
        assert_eq!(args.allow_host, ["example.org", "api.example.org:8443"]);
        assert_eq!(args.memory.unwrap().value, 1 << 30);
        assert_eq!(args.cpus.unwrap().value, 2000);
        assert!(args.timeout.is_none());
    }

    #[test]
    fn flag_answers_its_question_and_a_closed_input_is_an_error() {
        let given = FirstPolicyArgs {
            workspace: Some(WorkspaceMode::Scratch),
            allow_host: vec!["example.org".to_owned()],
            ..Default::default()
        };
        assert!(ask(given, &mut "\n".as_bytes()).is_ok());
        assert!(asked("read\n").is_err());
    }
}
