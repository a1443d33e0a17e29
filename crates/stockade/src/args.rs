//! Arguments of the command line.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use stockade_backends::provider_names;
use stockade_policy::Preset;

use crate::render::Output;

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    policy diff --exit-code: the second policy is wider
  125  Stockade could not: bad usage, an invalid policy, something that cannot be enforced
  126  policy why --exit-code: the answer is deny";

const WHY_USAGE: &str = "\
stockade policy why [OPTIONS] <FILE>... --path <PATH> [--write]
       stockade policy why [OPTIONS] <FILE>... --host <HOST[:PORT]> [--method <METHOD> --url-path <PATH>]
       stockade policy why [OPTIONS] <FILE>... --code <FILE> [--language <LANGUAGE>]
       stockade policy why [OPTIONS] <FILE>... --tool <NAME>
       stockade policy why [OPTIONS] <FILE>... --command <ARGV>...";

/// Run code written by AI agents behind a wall it cannot cross.
#[derive(Parser)]
#[command(name = "stockade", version, after_help = EXIT_CODES, propagate_version = false)]
pub(crate) struct Cli {
    /// Print one JSON object or array on standard output.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// How results are printed.
    pub(crate) fn output(&self) -> Output {
        let asked_last = match &self.command {
            Command::Policy(PolicyArgs { command: PolicyCommand::Why(why) }) => {
                why.ends_with("--json")
            }
            _ => false,
        };
        if self.json || asked_last { Output::Json } else { Output::Text }
    }
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Check, explain, combine and compare policies.
    Policy(PolicyArgs),
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
    /// Print the manual page, or write all of them to a directory.
    Man(ManArgs),
    /// Print the version, and check the guest that is carried inside.
    Version,
}

#[derive(Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

#[derive(Subcommand)]
pub(crate) enum PolicyCommand {
    /// Check policy files, one by one.
    Check(Files),
    /// Write a commented policy to start from.
    Init(InitArgs),
    /// Print the JSON Schema of the policy language, for editors.
    Schema,
    /// Print the combined policy with every default filled in.
    Show(Files),
    /// Say whether something is allowed, which line decides, and what would change it.
    #[command(override_usage = WHY_USAGE)]
    Why(Box<WhyArgs>),
    /// Say for every control which mechanism would hold it here, or why none can.
    Plan(PlanArgs),
    /// Say what policy B allows that policy A does not.
    Diff(DiffArgs),
}

/// Policy files; more than one are combined, which only narrows.
#[derive(Args)]
pub(crate) struct Files {
    /// A policy file, or `-` for standard input.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Args)]
pub(crate) struct InitArgs {
    /// The policy to start from.
    #[arg(default_value = "default", value_name = "PRESET")]
    pub(crate) preset: PresetName,
    /// Write to this file instead of standard output.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the file if it is there.
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}

/// A preset, as it is written on the command line.
#[derive(Clone, Copy)]
pub(crate) struct PresetName(pub(crate) Preset);

impl ValueEnum for PresetName {
    fn value_variants<'a>() -> &'a [PresetName] {
        const ALL: [PresetName; 5] = [
            PresetName(Preset::ALL[0]),
            PresetName(Preset::ALL[1]),
            PresetName(Preset::ALL[2]),
            PresetName(Preset::ALL[3]),
            PresetName(Preset::ALL[4]),
        ];
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.as_str()).help(self.0.summary()))
    }
}

#[derive(Args)]
pub(crate) struct WhyArgs {
    #[command(flatten)]
    pub(crate) policy: Files,
    #[command(flatten)]
    pub(crate) question: Question,
    /// With --path: ask about writing instead of reading.
    #[arg(long, requires = "path")]
    pub(crate) write: bool,
    /// With --host: the method of a request.
    #[arg(long, requires = "host", requires = "url_path", value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// With --host: the path of a request.
    #[arg(long, requires = "host", requires = "method", value_name = "PATH")]
    pub(crate) url_path: Option<String>,
    /// With --host: an address it resolved to.
    #[arg(long, requires = "host", conflicts_with = "method", value_name = "IP")]
    pub(crate) address: Option<std::net::IpAddr>,
    /// With --code: the language; by the file's ending when unsaid.
    #[arg(long, requires = "code", value_name = "LANGUAGE")]
    pub(crate) language: Option<String>,
    /// A field of the caller's context; the value is JSON, or else text. May be repeated.
    #[arg(long, value_name = "FIELD=VALUE")]
    pub(crate) context: Vec<String>,
    /// The agent that asks.
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// The session it asks in.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// The time to judge by, such as 2026-03-01T09:30:00Z; now when unsaid.
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<jiff::Timestamp>,
    /// Exit with 126 when the answer is deny.
    #[arg(long)]
    pub(crate) exit_code: bool,
}

impl WhyArgs {
    /// An option that belongs to another question than the one that is asked, and that question.
    /// Clap waives `requires` for an argument that conflicts with one that is present.
    pub(crate) fn misplaced(&self) -> Option<(&'static str, &'static str)> {
        let Question { path, host, code, .. } = &self.question;
        let pairs = [
            (self.write && path.is_none(), "--write", "--path"),
            (self.method.is_some() && host.is_none(), "--method", "--host"),
            (self.url_path.is_some() && host.is_none(), "--url-path", "--host"),
            (self.address.is_some() && host.is_none(), "--address", "--host"),
            (self.language.is_some() && code.is_none(), "--language", "--code"),
        ];
        pairs.into_iter().find(|(wrong, ..)| *wrong).map(|(_, option, question)| (option, question))
    }

    /// Whether an option of ours stands at the end of the arguments of --command.
    fn ends_with(&self, option: &str) -> bool {
        self.own_options().iter().any(|own| own == option)
    }

    /// Whether a denial is an exit code.
    pub(crate) fn wants_exit_code(&self) -> bool {
        self.exit_code || self.ends_with("--exit-code")
    }

    /// The options of ours that --command has swallowed: those at its end, unless `--` closes it.
    fn own_options(&self) -> &[String] {
        let argv = &self.question.command;
        let own =
            argv.iter().rev().take_while(|word| matches!(word.as_str(), "--json" | "--exit-code"));
        &argv[argv.len() - own.count()..]
    }

    /// The program and its arguments.
    pub(crate) fn argv(&self) -> &[String] {
        let argv = &self.question.command;
        let argv = &argv[..argv.len() - self.own_options().len()];
        argv.strip_suffix(&["--".to_owned()]).unwrap_or(argv)
    }
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Question {
    /// A path inside; relative ones start in /workspace.
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// A host, with a port or on 443.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) host: Option<String>,
    /// A file with code, or `-` for standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) code: Option<PathBuf>,
    /// A tool.
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// A program with its arguments. Everything after it belongs to it, except `--json` and
    /// `--exit-code` at the end; a closing `--` keeps those for the program.
    #[arg(long, value_name = "ARGV", num_args = 1.., allow_hyphen_values = true)]
    pub(crate) command: Vec<String>,
}

#[derive(Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) policy: Files,
    /// Ask this wall only.
    #[arg(long, value_name = "PROVIDER", value_parser = PossibleValuesParser::new(provider_names()))]
    pub(crate) provider: Option<String>,
}

#[derive(Args)]
pub(crate) struct DiffArgs {
    /// The policy to compare with.
    #[arg(value_name = "A")]
    pub(crate) base: PathBuf,
    /// The policy that is looked at.
    #[arg(value_name = "B")]
    pub(crate) new: PathBuf,
    /// Exit with 1 when B allows something that A does not.
    #[arg(long)]
    pub(crate) exit_code: bool,
}

#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args)]
pub(crate) struct ManArgs {
    /// Write one page per command to this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
