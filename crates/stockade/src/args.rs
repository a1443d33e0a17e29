//! Arguments of the command line.

mod audit;
mod bench;
mod doctor;
mod image;
mod init;
#[cfg(feature = "mcp")]
mod mcp;
mod run;
mod sandbox;
mod sessions;
mod state;
#[cfg(feature = "top")]
mod top;
mod why;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use stockade_backends::provider_names;
use stockade_policy::Preset;

use crate::invocation;
use crate::render::Output;

pub(crate) use audit::{AuditArgs, AuditCommand, Choice, LsArgs, PruneArgs};
pub(crate) use bench::BenchArgs;
pub(crate) use doctor::DoctorArgs;
pub(crate) use image::{HardenedArgs, ImageArgs, ImageCommand, ImportArgs, MachineArgs, Root};
pub(crate) use init::{FirstPolicyArgs, WorkspaceMode};
#[cfg(feature = "mcp")]
pub(crate) use mcp::McpArgs;
pub(crate) use run::{RunArgs, Target};
pub(crate) use sandbox::{PolicyFlags, SandboxArgs};
pub(crate) use sessions::{
    AttachArgs, CodeArgs, ContextArgs, ContextCommand, CpArgs, CreateArgs, CreateContextArgs,
    ExecArgs, KillArgs, LogsArgs, LsContextsArgs, LsSessionsArgs, NamedContext, PortArgs,
    ProgramArgs, PruneSessionsArgs, PsArgs, RmArgs, SecretArgs, SecretCommand, SessionNames,
    ShellArgs, StatsArgs,
};
pub(crate) use state::{
    ApplyArgs, CheckpointArgs, CheckpointCommand, CheckpointsArgs, DiscardArgs, ExportArgs,
    ForkArgs, Origin, RestoreArgs, StateDiffArgs, StateImportArgs, StoreArgs, StoreCommand,
};
#[cfg(feature = "top")]
pub(crate) use top::TopArgs;
pub(crate) use why::WhyArgs;

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    policy diff --exit-code: the second policy is wider;
       audit verify: a record was changed
  125  Stockade could not: bad usage, an invalid policy, something that cannot be enforced,
       no wall that can be run
  126  policy why --exit-code: the answer is deny";

/// Run code written by AI agents behind a wall it cannot cross.
#[derive(Parser)]
#[command(name = "stockade", version, after_help = EXIT_CODES, propagate_version = false, max_term_width = 80)]
pub(crate) struct Cli {
    /// Print one JSON object or array on standard output.
    ///
    /// `--json=short` omits the plan of a run: which mechanism enforced each clause.
    #[arg(
        long,
        global = true,
        value_name = "FORM",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "full",
        hide_possible_values = true
    )]
    json: Option<JsonForm>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How much a JSON report has.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum JsonForm {
    /// Everything.
    Full,
    /// No plan.
    Short,
}

/// A parser with only one command: building the other subcommands would delay every run.
#[derive(Parser)]
#[command(name = "stockade", max_term_width = 80)]
struct RunOnly {
    #[arg(long, global = true, num_args = 0..=1, require_equals = true, default_missing_value = "full")]
    json: Option<JsonForm>,
    #[command(subcommand)]
    command: RunCommand,
}

#[derive(Subcommand)]
enum RunCommand {
    Run(Box<RunArgs>),
}

/// The same for the programs of a session.
#[derive(Parser)]
#[command(name = "stockade", max_term_width = 80)]
struct ExecOnly {
    #[arg(long, global = true, num_args = 0..=1, require_equals = true, default_missing_value = "full")]
    json: Option<JsonForm>,
    #[command(subcommand)]
    command: ExecCommand,
}

#[derive(Subcommand)]
enum ExecCommand {
    Exec(ExecArgs),
    Code(CodeArgs),
}

impl Cli {
    /// Parses the arguments of this process.
    pub(crate) fn read() -> Result<Cli, clap::Error> {
        let arguments = invocation::arguments();
        let first = arguments.get(1).cloned().unwrap_or_default();
        let quick = match first.to_str() {
            Some("run") => RunOnly::try_parse_from(&arguments).map(|RunOnly { json, command }| {
                let RunCommand::Run(args) = command;
                Cli { json, command: Command::Run(args) }
            }),
            Some("exec" | "code") => {
                ExecOnly::try_parse_from(&arguments).map(|ExecOnly { json, command }| {
                    let command = match command {
                        ExecCommand::Exec(args) => Command::Exec(args),
                        ExecCommand::Code(args) => Command::Code(args),
                    };
                    Cli { json, command }
                })
            }
            _ => Cli::try_parse_from(&arguments),
        };
        // The full parser prints errors and help.
        let mut cli = quick.or_else(|_| Cli::try_parse_from(&arguments))?;
        let is_short = cli.json == Some(JsonForm::Short);
        match &mut cli.command {
            Command::Run(args) => args.short = is_short,
            Command::Exec(args) => args.program.short = is_short,
            Command::Code(args) => args.program.short = is_short,
            _ => {}
        }
        Ok(cli)
    }

    /// How results are printed.
    pub(crate) fn output(&self) -> Output {
        let asked_last = match &self.command {
            Command::Policy(PolicyArgs { command: PolicyCommand::Why(why) }) => {
                why.ends_with("--json")
            }
            _ => false,
        };
        if self.json.is_some() || asked_last { Output::Json } else { Output::Text }
    }
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a script or a command in a sandbox.
    #[command(override_usage = run::USAGE, after_help = run::AFTER, after_long_help = run::AFTER_LONG)]
    Run(Box<RunArgs>),
    /// Write a policy for this directory, after three questions.
    #[command(after_help = init::HELP)]
    Init(Box<FirstPolicyArgs>),
    /// Create a session: a sandbox for many programs.
    #[command(after_help = sessions::CREATE)]
    Create(Box<CreateArgs>),
    /// Run a command in a session.
    #[command(override_usage = sessions::EXEC_USAGE, after_help = sessions::EXEC)]
    Exec(ExecArgs),
    /// Run code in a session.
    #[command(after_help = sessions::CODE)]
    Code(CodeArgs),
    /// List, interrupt, restart and remove contexts of a session.
    #[command(after_help = sessions::CONTEXT)]
    Context(ContextArgs),
    /// Forward a port of a server in a session to this host.
    #[command(after_help = sessions::PORT)]
    Port(PortArgs),
    /// Open a shell in a session, on this terminal.
    #[command(after_help = sessions::SHELL)]
    Shell(ShellArgs),
    /// Copy files and directories between this host and a session.
    #[command(after_help = sessions::CP)]
    Cp(CpArgs),
    /// List the programs of a session.
    Ps(PsArgs),
    /// Follow a running program: its output, and this input.
    #[command(after_help = sessions::ATTACH)]
    Attach(AttachArgs),
    /// Send a signal to programs of a session.
    #[command(after_help = sessions::KILL)]
    Kill(KillArgs),
    /// Change the secrets of a session.
    #[command(after_help = sessions::SECRET)]
    Secret(SecretArgs),
    /// List the sessions.
    Ls(LsSessionsArgs),
    /// Describe sessions as JSON: policy, wall, controls, limits.
    Inspect(SessionNames),
    /// Print the latest output of the programs of a session.
    #[command(after_help = sessions::LOGS)]
    Logs(LogsArgs),
    /// Print what sessions used so far.
    Stats(StatsArgs),
    /// Watch the sessions on this terminal.
    #[cfg(feature = "top")]
    #[command(after_help = top::HELP)]
    Top(TopArgs),
    /// Stop all programs of sessions until `resume`; their time limits go on.
    Pause(SessionNames),
    /// Continue the programs of paused sessions.
    Resume(SessionNames),
    /// Keep the files of a session.
    #[command(after_help = state::CHECKPOINT)]
    Checkpoint(CheckpointArgs),
    /// List checkpoints.
    Checkpoints(CheckpointsArgs),
    /// Bring a session back to a checkpoint.
    #[command(after_help = state::RESTORE)]
    Restore(RestoreArgs),
    /// Create sessions with the files of another.
    #[command(after_help = state::FORK)]
    Fork(ForkArgs),
    /// Print what programs of a session changed.
    #[command(after_help = state::DIFF)]
    Diff(StateDiffArgs),
    /// Write changes of a session to the host.
    #[command(after_help = state::APPLY)]
    Apply(ApplyArgs),
    /// Write a session or a checkpoint to a file.
    Export(ExportArgs),
    /// Read a checkpoint from a file.
    Import(StateImportArgs),
    /// Throw away everything that programs of a session wrote.
    Discard(DiscardArgs),
    /// Measure, check and clean the store of checkpoints.
    Store(StoreArgs),
    /// End sessions, with all their programs and files.
    #[command(after_help = sessions::RM)]
    Rm(RmArgs),
    /// End every session in which no program runs.
    Prune(PruneSessionsArgs),
    /// Offer sandboxes to an MCP client, on standard input and output.
    #[cfg(feature = "mcp")]
    #[command(after_help = mcp::HELP)]
    Mcp(Box<McpArgs>),
    /// Holds a session; `create` starts it.
    #[command(name = "__supervise", hide = true)]
    Supervise,
    /// Check, explain, combine and compare policies.
    Policy(PolicyArgs),
    /// Build, import, list and remove images.
    #[command(after_help = image::HELP)]
    Image(ImageArgs),
    /// List, show, follow, check and sum up the records of runs.
    #[command(after_help = audit::HELP)]
    Audit(AuditArgs),
    /// Report which walls this host can run, how strong they are, and what prevents others.
    #[command(after_help = doctor::HELP)]
    Doctor(DoctorArgs),
    /// Measure what a sandbox costs, compared with other tools on this machine.
    #[command(after_help = bench::HELP)]
    Bench(BenchArgs),
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
    /// Print the manual page, or write all of them to a directory.
    Man(ManArgs),
    /// Print the version, and check the embedded guest binary.
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
    /// Report whether something is allowed, which line decides, and what would change it.
    #[command(override_usage = why::USAGE)]
    Why(Box<WhyArgs>),
    /// List for every control which mechanism enforces it here, or why none can.
    Plan(PlanArgs),
    /// Print the policy lines that would allow what a run was denied.
    Suggest(SuggestArgs),
    /// List what policy B allows that policy A does not.
    Diff(DiffArgs),
}

/// Policy files; several are combined, which only narrows.
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
    /// Replace the file if it exists.
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
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) policy: Files,
    /// Check only this wall.
    #[arg(long, value_name = "PROVIDER", value_parser = PossibleValuesParser::new(provider_names()))]
    pub(crate) provider: Option<String>,
}

#[derive(Args)]
pub(crate) struct SuggestArgs {
    /// A session as `stockade audit` names it, or a file with the output of `run --json` [default:
    /// the latest session]. `-` reads such output from standard input.
    #[arg(value_name = "SESSION|FILE")]
    pub(crate) from: Option<String>,
    /// The directory of the records [default: where `stockade run` keeps them].
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct DiffArgs {
    /// The policy to compare with.
    #[arg(value_name = "A")]
    pub(crate) base: PathBuf,
    /// The policy to examine.
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
