//! Arguments of the commands for checkpoints.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

pub(super) const CHECKPOINT: &str = "\
Examples:
  stockade checkpoint work before-refactoring
  stockade restore work before-refactoring
  stockade checkpoint rm work/before-refactoring

A checkpoint has everything that programs of the session can write, apart from directories
of the host that are mounted writable, and the session's policy, environment and tools.
Programs are stopped during the copy; the output says for how long. It stays when the
session ends. SESSION/NAME names it everywhere.";

pub(super) const RESTORE: &str = "\
The session gets a fresh sandbox with the files of the checkpoint; if that fails, it keeps the
old one. Programs must have ended, or --force ends them. Limits that count go on counting.";

pub(super) const FORK: &str = "\
Examples:
  stockade fork work                      # one more session like it
  stockade fork work -n 3 --from base     # three, from a checkpoint
  stockade fork work --from base --name idea

Prints the names of the new sessions. A fork has the policy, environment and tools of the
checkpoint. Values of credentials are in no checkpoint: set their variables for this command.";

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct CheckpointArgs {
    #[command(subcommand)]
    pub(crate) command: Option<CheckpointCommand>,
    /// The session.
    #[arg(value_name = "SESSION", required = true)]
    pub(crate) session: Option<String>,
    /// The name of the checkpoint.
    #[arg(value_name = "NAME", required = true)]
    pub(crate) name: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum CheckpointCommand {
    /// Remove checkpoints. `stockade store gc` then frees their space.
    Rm(RmCheckpointArgs),
}

#[derive(Args)]
pub(crate) struct RmCheckpointArgs {
    /// The checkpoints.
    #[arg(required = true, value_name = "SESSION/NAME")]
    pub(crate) checkpoints: Vec<String>,
}

#[derive(Args)]
pub(crate) struct CheckpointsArgs {
    /// Print only names.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Only those of one session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,
}

#[derive(Args)]
pub(crate) struct RestoreArgs {
    /// End running programs first.
    #[arg(long, short)]
    pub(crate) force: bool,
    /// Also take a checkpoint that was made under another policy; the session keeps its own.
    #[arg(long)]
    pub(crate) any_policy: bool,
    /// The session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// A checkpoint of the session, or SESSION/NAME.
    #[arg(value_name = "NAME")]
    pub(crate) checkpoint: String,
}

#[derive(Args)]
pub(crate) struct DiscardArgs {
    /// End running programs first.
    #[arg(long, short)]
    pub(crate) force: bool,
    /// The session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
}

#[derive(Args)]
pub(crate) struct ForkArgs {
    /// How many new sessions.
    #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) count: u16,
    /// Fork a checkpoint instead of what the session has now; the session may have ended.
    #[arg(long, value_name = "NAME")]
    pub(crate) from: Option<String>,
    /// Accept the policy, tools and paths of an imported checkpoint.
    ///
    /// The author of the file chose which host directories it shows and which commands its tools run.
    #[arg(long)]
    pub(crate) trust_import: bool,
    /// The name of the new session; several get a number each [default: random names].
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
}

pub(super) const DIFF: &str = "\
Examples:
  stockade diff work                     # against where the workspace started
  stockade diff work --from base         # against a checkpoint
  stockade diff work --patch | git apply # as a patch, without escapes

Text files are compared by line, others by size and hash. Only the workspace is compared,
or with --all everything that programs can write.";

pub(super) const APPLY: &str = "\
Examples:
  stockade apply work --dry-run
  stockade apply work --only src README.md
  stockade apply work --accept package.json
  stockade apply work --to ../copy

Changes of the workspace are written to the directory of `--workspace`, or to --to.
Refused: FIFOs, sockets, links that leave the directory, names that differ from others only by
case. Flagged, and applied only with --accept: what tools of the host execute, such as git
hooks, shell start files, editor tasks, package scripts and CI definitions. What the host
changed since the session started is a conflict and stays as it is.
The exit code is 1 if a change was not applied.";

#[derive(Args)]
pub(crate) struct StateDiffArgs {
    /// Compare with this checkpoint instead of where the workspace started.
    #[arg(long, value_name = "NAME")]
    pub(crate) from: Option<String>,
    /// Print a patch without colour and escapes.
    #[arg(long)]
    pub(crate) patch: bool,
    /// Compare all writable places, not only the workspace.
    #[arg(long)]
    pub(crate) all: bool,
    /// The session, or a checkpoint as SESSION/NAME.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
}

#[derive(Args)]
pub(crate) struct ApplyArgs {
    /// Only these paths in the workspace, with what is below them.
    #[arg(long, value_name = "PATHS", num_args = 1..)]
    pub(crate) only: Vec<OsString>,
    /// Accept these paths although a tool of the host executes them.
    #[arg(long, value_name = "PATHS", num_args = 1..)]
    pub(crate) accept: Vec<OsString>,
    /// The directory of the host [default: that of --workspace].
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
    /// Change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The session, or a checkpoint as SESSION/NAME.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
}

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// A session, or a checkpoint as SESSION/NAME.
    #[arg(value_name = "SESSION|SESSION/NAME")]
    pub(crate) source: String,
    /// The new file.
    #[arg(value_name = "FILE.tar.zst")]
    pub(crate) file: PathBuf,
}

#[derive(Args)]
pub(crate) struct StateImportArgs {
    /// The name of the checkpoint [default: the one it had].
    #[arg(long = "as", value_name = "SESSION/NAME")]
    pub(crate) name: Option<String>,
    /// What `stockade export` wrote.
    #[arg(value_name = "FILE.tar.zst")]
    pub(crate) file: PathBuf,
}

#[derive(Args)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    pub(crate) command: StoreCommand,
}

#[derive(Subcommand)]
pub(crate) enum StoreCommand {
    /// Print what the store of checkpoints uses.
    Ls,
    /// Read everything, and report what is damaged.
    Verify,
    /// Remove what no checkpoint has.
    Gc,
}

/// A checkpoint that a new session starts from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    /// The policy.
    pub(crate) policy: String,
    /// The tools files: name, directory of relative paths, text.
    pub(crate) tools: Vec<(String, PathBuf, Vec<u8>)>,
    /// Files that nothing inside may change.
    pub(crate) protected: Vec<PathBuf>,
    /// The variables that decide which interpreters are meant.
    pub(crate) surroundings: Vec<(String, std::ffi::OsString)>,
}
