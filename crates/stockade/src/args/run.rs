//! Arguments of `stockade run`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use stockade_backends::provider_names;
use stockade_policy::Isolation;

use crate::run::amount::{self, Amount};

pub(super) const USAGE: &str = "\
stockade run [OPTIONS] <SCRIPT> [ARGUMENTS]...
       stockade run [OPTIONS] - [ARGUMENTS]...
       stockade run [OPTIONS] -- <COMMAND> [ARGUMENTS]...";

pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0…    the program's own; 128 + number when it died of a signal
  122   a limit ended it, such as max_cpu_seconds
  124   it ran longer than it may
  125   Stockade could not: bad usage, an invalid policy, something that cannot be enforced
  126   the policy refused it before the start
  127   the program could not be started
  130   it was cancelled
  137   it ran out of memory";

#[derive(Args)]
pub(crate) struct RunArgs {
    /// A policy file; several are combined, which only narrows. The preset `default` when unsaid.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Vec<PathBuf>,
    /// The wall; unsaid, the fastest that holds the policy.
    #[arg(long, value_name = "PROVIDER", value_parser = PossibleValuesParser::new(provider_names()))]
    pub(crate) provider: Option<String>,
    #[command(flatten)]
    pub(crate) flags: PolicyFlags,
    /// A variable to set inside, or the name of one to pass through. May be repeated.
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// The Python to use: an executable, or the directory of an environment.
    #[arg(long, value_name = "PATH")]
    pub(crate) python: Option<PathBuf>,
    /// An unpacked image or another directory to stand at `/`, read-only.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// The language of the script; by its ending or its first line when unsaid.
    #[arg(long, value_name = "LANGUAGE")]
    pub(crate) language: Option<String>,
    /// Say nothing about the run beside what the program prints.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Let the program's escape sequences through to a terminal.
    #[arg(long)]
    pub(crate) raw: bool,
    /// The script, or `-` for standard input, and what it sees as its arguments. After `--`: a
    /// command.
    #[arg(trailing_var_arg = true, value_name = "SCRIPT")]
    words: Vec<String>,
}

/// What the command line adds to the preset, or tightens in the policies.
#[derive(Args, Default)]
pub(crate) struct PolicyFlags {
    /// The weakest wall that does.
    #[arg(long, value_name = "FLOOR", value_parser = PossibleValuesParser::new(Isolation::ALL.map(Isolation::as_str)))]
    pub(crate) isolation: Option<String>,
    /// Memory, files included, such as 512m.
    #[arg(long, value_name = "SIZE", value_parser = amount::size)]
    pub(crate) memory: Option<Amount>,
    /// Processors, such as 0.5.
    #[arg(long, value_name = "NUMBER", value_parser = amount::cpus)]
    pub(crate) cpus: Option<Amount>,
    /// Wall-clock time, such as 30s.
    #[arg(long, value_name = "TIME", value_parser = amount::time)]
    pub(crate) timeout: Option<Amount>,
    /// Processes and threads at once.
    #[arg(long, value_name = "NUMBER", value_parser = amount::count)]
    pub(crate) pids: Option<Amount>,
    /// Files in writable places, such as 64m; half of the memory when unsaid.
    #[arg(long, value_name = "SIZE", value_parser = amount::size)]
    pub(crate) disk: Option<Amount>,
    /// Output that is kept, such as 1m; the rest is counted and dropped.
    #[arg(long, value_name = "SIZE", value_parser = amount::size)]
    pub(crate) max_output: Option<Amount>,
    /// A file or directory of the host to show inside, read-only unless `rw`. May be repeated.
    #[arg(long, value_name = "HOST:GUEST[:rw]")]
    pub(crate) mount: Vec<String>,
    /// A directory of the host to stand at /workspace: overlay keeps changes private, read allows
    /// none, write makes them on the host.
    #[arg(long, value_name = "DIR[:overlay|read|write]")]
    pub(crate) workspace: Option<String>,
}

/// What is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// A script and its arguments.
    Script(&'a str, &'a [String]),
    /// A command with its arguments.
    Command(&'a [String]),
}

impl RunArgs {
    /// What is to run, if anything was said. `argv` are all words of the command line: those of
    /// the target are its last, and a command has `--` before it.
    pub(crate) fn target(&self, argv: &[std::ffi::OsString]) -> Option<Target<'_>> {
        let (first, rest) = self.words.split_first()?;
        let before = argv.len().checked_sub(self.words.len() + 1).and_then(|at| argv.get(at));
        let is_command = before.is_some_and(|word| word == "--");
        Some(if is_command { Target::Command(&self.words) } else { Target::Script(first, rest) })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn parsed(words: &[&str]) -> (RunArgs, Vec<std::ffi::OsString>, bool) {
        let argv: Vec<std::ffi::OsString> =
            ["stockade", "run"].iter().chain(words).map(Into::into).collect();
        let cli = Cli::try_parse_from(&argv).unwrap();
        let as_json = cli.json;
        let Command::Run(args) = cli.command else { panic!("run was said") };
        (*args, argv, as_json)
    }

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn everything_after_a_script_is_the_scripts() {
        let (args, argv, as_json) =
            parsed(&["--memory", "64m", "a.py", "--memory", "x", "--", "--json", "-h"]);
        let rest = owned(&["--memory", "x", "--", "--json", "-h"]);
        assert_eq!(args.target(&argv), Some(Target::Script("a.py", &rest)));
        assert_eq!((args.flags.memory.unwrap().written.as_str(), as_json), ("64m", false));
    }

    #[test]
    fn words_after_two_hyphens_are_a_command() {
        let (args, argv, as_json) = parsed(&["--json", "--", "ls", "-l", "--json"]);
        assert_eq!(args.target(&argv), Some(Target::Command(&owned(&["ls", "-l", "--json"]))));
        assert!(as_json);
        let (args, argv, _) = parsed(&["-", "a"]);
        assert_eq!(args.target(&argv), Some(Target::Script("-", &owned(&["a"]))));
        let (args, argv, _) = parsed(&["--quiet"]);
        assert_eq!(args.target(&argv), None);
    }
}
