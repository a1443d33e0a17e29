//! Errors in the arguments, with a remedy that names what was probably meant.

use std::error::Error as _;
use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::Problem;
use crate::run::amount::AmountError;
use crate::shell::{shell_word, shown_words};

/// Options of other tools that run programs in containers, and what has their place here.
const HABITS: [(&str, &str); 12] = [
    ("-v", "--mount HOST:GUEST shows a file or directory inside"),
    ("--volume", "--mount HOST:GUEST shows a file or directory inside"),
    ("-e", "--env NAME=VALUE sets a variable inside"),
    ("-m", "--memory SIZE limits the memory"),
    ("-w", "--workdir DIR is the directory where the program starts"),
    ("-t", "--timeout TIME limits the time; a program inside has pipes, not a terminal"),
    ("-i", "the program's input is connected without an option"),
    ("-it", "the program's input is connected without an option"),
    ("--rm", "a sandbox is always removed after its run"),
    ("-p", "nothing outside connects to a program inside"),
    ("--network", "--allow-host HOST names a host that the program may reach"),
    ("-c", "`-- python3 -c CODE` or `-- sh -c CODE` runs a text"),
];

/// The error for arguments that clap refused, where Stockade knows more than clap. `argv` is the
/// whole command line.
pub(super) fn problem(error: &clap::Error, argv: &[OsString]) -> Option<Problem> {
    let is_run = argv.get(1).is_some_and(|word| word == "run");
    match error.kind() {
        ErrorKind::UnknownArgument if is_run => unknown_option(error),
        // The argument may be the value, so it is not repeated.
        ErrorKind::UnknownArgument if argv.get(1).is_some_and(|word| word == "secret") => {
            let message = "`stockade secret set` takes a session and a name, and no value";
            let remedy = "pass the value on standard input, or with --from env:NAME or file:PATH";
            Some(Problem::new(message, remedy))
        }
        ErrorKind::InvalidSubcommand => unknown_command(error, argv),
        _ => amount(error),
    }
}

fn unknown_option(error: &clap::Error) -> Option<Problem> {
    let option = text(error, ContextKind::InvalidArg)?;
    let name = option.split('=').next().unwrap_or(option);
    let habit = HABITS.iter().find(|(other, _)| *other == name);
    let remedy = match (text(error, ContextKind::SuggestedArg), habit) {
        (_, Some((_, meant))) => format!("{meant}; `stockade run --help` lists every option"),
        (Some(similar), None) => format!("did you mean {similar}?"),
        (None, None) => "`stockade run --help` lists every option; those of a program come after \
                         its name"
            .to_owned(),
    };
    Some(Problem::new(format!("`stockade run` has no option {name}"), remedy))
}

/// A script or a program in place of a command.
fn unknown_command(error: &clap::Error, argv: &[OsString]) -> Option<Problem> {
    let word = text(error, ContextKind::InvalidSubcommand)?;
    let rest = argv.iter().skip_while(|other| *other != word).skip(1);
    let rest = shown_words(rest.map(|word| word.to_string_lossy().into_owned()));
    let is_script = word.contains(['.', '/']) || Path::new(word).is_file();
    // `stockade ruin` is rather a mistyped command than a program.
    if !is_script && error.get(ContextKind::SuggestedSubcommand).is_some() {
        return None;
    }
    let before = if is_script { "" } else { "-- " };
    let words = [vec![format!("{before}{}", shell_word(word))], rest].concat();
    let message = format!("there is no command `{word}`");
    let remedy = format!(
        "to run it: `stockade run {}`; `stockade --help` lists the commands",
        words.join(" ")
    );
    Some(Problem::new(message, remedy))
}

/// The error for an invalid amount.
fn amount(error: &clap::Error) -> Option<Problem> {
    let said = error.source()?.downcast_ref::<AmountError>()?;
    // Clap reports the flag together with its value name.
    let flag = text(error, ContextKind::InvalidArg)?.split(' ').next()?;
    let message = format!("{flag} {}: {said}", text(error, ContextKind::InvalidValue)?);
    Some(Problem::new(message, format!("write it such as {flag} {}", said.example)))
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text),
        ContextValue::Strings(texts) => texts.first().map(String::as_str),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    fn refused(words: &[&str]) -> Option<Problem> {
        let argv: Vec<OsString> = ["stockade"].iter().chain(words).map(Into::into).collect();
        problem(&Cli::try_parse_from(&argv).err().unwrap(), &argv)
    }

    #[test]
    fn value_on_the_command_line_of_secret_set_is_not_repeated() {
        for words in [&["secret", "set", "s", "KEY", "sk-live"][..], &["secret", "set", "-sk-live"]]
        {
            let problem = refused(words).unwrap();
            assert!(!format!("{problem} {}", problem.remedy).contains("sk-live"), "{problem}");
        }
    }

    #[test]
    fn option_of_another_tool_gets_the_option_that_has_its_place() {
        for (words, message, remedy) in [
            (&["run", "-v", "a:/b", "x.py"][..], "has no option -v", "--mount HOST:GUEST"),
            (&["run", "--volume=a:/b", "x.py"], "has no option --volume", "--mount HOST:GUEST"),
            (&["run", "-e", "A=b", "x.py"], "has no option -e", "--env NAME=VALUE"),
            (&["run", "-t", "x.py"], "has no option -t", "--timeout TIME"),
            (
                &["run", "--memroy", "1g", "x.py"],
                "has no option --memroy",
                "did you mean --memory?",
            ),
            (&["run", "--zzz", "x.py"], "has no option --zzz", "--help"),
        ] {
            let problem = refused(words).unwrap();
            assert!(problem.message.contains(message), "{words:?}: {problem}");
            assert!(problem.remedy.contains(remedy), "{words:?}: {}", problem.remedy);
            assert!(!problem.remedy.contains("-- -"), "{words:?}: {}", problem.remedy);
        }
    }

    #[test]
    fn script_or_program_without_run_gets_the_whole_command() {
        for (words, remedy) in [
            (&["script.py", "-x", "a b"][..], "`stockade run script.py -x 'a b'`"),
            (&["./tool"], "`stockade run ./tool`"),
            (&["python3", "-c", "1"], "`stockade run -- python3 -c 1`"),
        ] {
            let problem = refused(words).unwrap();
            assert!(problem.remedy.contains(remedy), "{words:?}: {}", problem.remedy);
        }
        assert!(refused(&["polcy"]).is_none(), "clap suggests the command");
    }
}
