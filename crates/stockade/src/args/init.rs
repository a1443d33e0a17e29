//! Arguments of `stockade init`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::run::amount::{self, Amount};

pub(super) const HELP: &str = "\
Asks what code may do with this directory, which hosts it may reach and how much it may use. A flag
answers its question. Without a terminal, or with --yes, defaults answer the rest.

Examples:
  stockade init
  stockade init --workspace overlay --allow-host api.example.org --memory 1g --yes
  stockade init --workspace read --write ./out:/output --yes";

#[derive(Args, Default)]
pub(crate) struct FirstPolicyArgs {
    /// What code inside may do with this directory, which it sees as /workspace [default: overlay].
    #[arg(long, value_name = "MODE")]
    pub(crate) workspace: Option<WorkspaceMode>,
    /// Show a file or directory, read-only. May be repeated.
    #[arg(long, value_name = "HOST:GUEST")]
    pub(crate) read: Vec<String>,
    /// Show a file or directory that code inside may change. May be repeated.
    #[arg(long, value_name = "HOST:GUEST")]
    pub(crate) write: Vec<String>,
    /// Allow connections to a host. May be repeated [default: none].
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) allow_host: Vec<String>,
    /// Memory, files included [default: 512m].
    #[arg(long, value_name = "SIZE", value_parser = amount::size)]
    pub(crate) memory: Option<Amount>,
    /// Processors [default: 1].
    #[arg(long, value_name = "NUMBER", value_parser = amount::cpus)]
    pub(crate) cpus: Option<Amount>,
    /// Time of one program, with ms, s, m or h [default: 60s].
    #[arg(long, value_name = "TIME", value_parser = amount::time)]
    pub(crate) timeout: Option<Amount>,
    /// Ask nothing: defaults answer what no flag does.
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// The file to write [default: stockade.yaml, or a file outside this directory if code may
    /// change the directory].
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the file if it exists.
    #[arg(long)]
    pub(crate) force: bool,
}

/// What code may do with the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkspaceMode {
    /// It sees the files; its changes are dropped at the end.
    Overlay,
    /// It sees the files and cannot change them.
    Read,
    /// It changes the files.
    Write,
    /// It sees an empty directory.
    Scratch,
}

impl WorkspaceMode {
    /// As a policy writes it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            WorkspaceMode::Overlay => "overlay",
            WorkspaceMode::Read => "read",
            WorkspaceMode::Write => "write",
            WorkspaceMode::Scratch => "scratch",
        }
    }
}
