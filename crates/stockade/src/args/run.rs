//! Arguments of `stockade run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::sandbox::{FILES, NETWORK, PROGRAM, SandboxArgs, WALL};

pub(super) const USAGE: &str = "\
stockade run [OPTIONS] <SCRIPT> [ARGUMENTS]...
       stockade run [OPTIONS] - [ARGUMENTS]...
       stockade run [OPTIONS] -- <COMMAND> [ARGUMENTS]...
       stockade run [OPTIONS] --image <IMAGE> [-- ARGUMENTS...]";

/// What `-h` ends with.
pub(super) const AFTER: &str = "\
`--help` has examples, exit codes and more about each option.";

/// What `--help` ends with.
pub(super) const AFTER_LONG: &str = "\
Examples:
  stockade run script.py --its-own-option
  stockade run --memory 256m --timeout 10s -- python3 -c 'print(1)'
  echo 'print(1)' | stockade run --language python -
  stockade run --workspace . -- python3 tests.py
  stockade run --mount ./data:/data --mount ./out:/out:rw script.py
  while read -r name; do stockade run --no-input a.py \"$name\"; done < names
  stockade run --allow-host example.org -- curl -s https://example.org/
  stockade run --learn policy.yaml script.py
  stockade run --policy policy.yaml --json script.py
  stockade run --tools tools.yaml script.py

Exit codes:
  0…    the program's own; 128 + number when it died of a signal
  122   a limit ended it, such as max_cpu_seconds
  124   it ran longer than it may
  125   Stockade could not: bad usage, an invalid policy, something that
        cannot be enforced
  126   the policy refused it before the start
  127   the program could not be started
  130   it was cancelled
  137   it ran out of memory";

#[derive(Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
    /// The language of the script.
    ///
    /// One of python, bash and javascript. By default the file extension decides, or else the `#!`
    /// line.
    #[arg(long, value_name = "LANGUAGE", help_heading = PROGRAM)]
    pub(crate) language: Option<String>,
    /// Give the program an empty input.
    ///
    /// Without it the program may consume input meant for others: in a loop such as `while read`
    /// the first run would read the rest of the list.
    #[arg(long, help_heading = PROGRAM)]
    pub(crate) no_input: bool,
    /// Print only what the program prints.
    #[arg(long, short, help_heading = PROGRAM)]
    pub(crate) quiet: bool,
    /// Let escape sequences through to a terminal.
    #[arg(long, help_heading = PROGRAM)]
    pub(crate) raw: bool,
    /// As root: run everything as an account.
    ///
    /// Stockade itself, the wall and the program run with the ids of a system account without a
    /// login shell, and keep no rights of root. Policies, mounts and scripts are read with the
    /// account's rights; its records are in /var/lib/stockade/NAME.
    #[arg(long, value_name = "NAME", help_heading = WALL)]
    pub(crate) as_user: Option<String>,
    /// Start in a directory [default: /workspace].
    ///
    /// A directory inside, where the program starts; a relative path starts at /workspace.
    #[arg(long, value_name = "DIR", help_heading = FILES)]
    pub(crate) workdir: Option<String>,
    /// Print a JSON object per line, as things happen.
    ///
    /// The events are start, output, denial and end, or error. See docs/run.md.
    #[arg(long, help_heading = PROGRAM, hide_short_help = true)]
    pub(crate) json_lines: bool,
    /// Allow public hosts, and write those used.
    ///
    /// The file is the smallest policy that this run would have needed. With --inspect it names the
    /// methods and paths of requests, also inside TLS, which the gate then ends. Private and own addresses
    /// need a literal --allow-host, and metadata addresses are never reached. Stockade writes the
    /// file after the run; it must not exist.
    #[arg(long, value_name = "FILE", help_heading = NETWORK, conflicts_with = "policy")]
    pub(crate) learn: Option<PathBuf>,
    /// Keep what the program wrote, as the checkpoint run/NAME.
    ///
    /// Otherwise its files are gone when it has ended. `stockade diff run/NAME` shows what it
    /// changed, and `stockade apply run/NAME` takes it to the host. See docs/state.md.
    #[arg(long, value_name = "NAME", help_heading = FILES, hide_short_help = true)]
    pub(crate) keep: Option<String>,
    /// Whether the report in JSON omits the plan.
    #[arg(skip)]
    pub(crate) short: bool,
    /// A script and its arguments.
    ///
    /// `-` is a script from standard input. After `--`: a command that is looked up inside.
    #[arg(trailing_var_arg = true, value_name = "SCRIPT")]
    words: Vec<String>,
}

/// What to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// A script and its arguments.
    Script(&'a str, &'a [String]),
    /// A command with its arguments.
    Command(&'a [String]),
}

impl RunArgs {
    /// The arguments between `run` and the target, without the `--` of a command.
    pub(crate) fn options<'a>(&self, argv: &'a [OsString]) -> &'a [OsString] {
        let end = argv.len().saturating_sub(self.words.len());
        let start = argv.iter().position(|word| word == "run").map_or(end, |at| at + 1);
        let options = argv.get(start..end).unwrap_or_default();
        options.strip_suffix(&[OsString::from("--")]).unwrap_or(options)
    }

    /// What to run, or `None` if the command line names nothing. `argv` is the whole command line:
    /// it ends with the target's arguments, and a command has `--` before it.
    pub(crate) fn target(&self, argv: &[OsString]) -> Option<Target<'_>> {
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
    use crate::run::amount::{self, Amount};

    fn parsed(words: &[&str]) -> (RunArgs, Vec<OsString>, bool) {
        let argv: Vec<OsString> = ["stockade", "run"].iter().chain(words).map(Into::into).collect();
        let cli = Cli::try_parse_from(&argv).unwrap();
        let as_json = cli.json.is_some();
        let Command::Run(args) = cli.command else { panic!("run was said") };
        (*args, argv, as_json)
    }

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn arguments_after_a_script_belong_to_the_script() {
        let (args, argv, as_json) =
            parsed(&["--memory", "64m", "a.py", "--memory", "x", "--", "--json", "-h"]);
        let rest = owned(&["--memory", "x", "--", "--json", "-h"]);
        assert_eq!(args.target(&argv), Some(Target::Script("a.py", &rest)));
        assert_eq!((args.sandbox.flags.memory.unwrap().written.as_str(), as_json), ("64m", false));
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

    #[test]
    fn options_are_the_words_before_the_target() {
        for words in [
            &["--quiet", "--memory", "1g", "a.py", "run"][..],
            &["--quiet", "--memory", "1g", "--", "ls"],
        ] {
            let (args, argv, _) = parsed(words);
            assert_eq!(args.options(&argv), ["--quiet", "--memory", "1g"], "{words:?}");
        }
    }

    #[test]
    fn help_shows_the_default_of_each_limit() {
        use stockade_policy::{Limit, Policy};
        let default = Policy::parse_str("p", "{}", std::path::Path::new("/")).unwrap();
        let held = |limit| default.limits.value(limit).unwrap();
        let told = |text: &str, parse: fn(&str) -> Result<Amount, amount::AmountError>| {
            parse(text).unwrap().value
        };
        assert_eq!(held(Limit::Memory) << 20, told("512m", amount::size));
        assert_eq!(held(Limit::Disk), held(Limit::Memory) / 2);
        assert_eq!(held(Limit::Cpu), told("1", amount::cpus));
        assert_eq!(held(Limit::Timeout), told("60s", amount::time));
        assert_eq!(held(Limit::Pids), told("256", amount::count));
        assert_eq!(held(Limit::Output), told("1m", amount::size));
        let mut command = <Cli as clap::CommandFactory>::command();
        let run = command.find_subcommand_mut("run").unwrap();
        let help = run.render_long_help().to_string();
        for default in ["512m", "half of the memory", "1", "60s", "256", "1m", "process"] {
            assert!(help.contains(&format!("[default: {default}]")), "{default}: {help}");
        }
    }
}
