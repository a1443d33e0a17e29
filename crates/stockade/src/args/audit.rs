//! Arguments of `stockade audit`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::run::amount;

pub(super) const HELP: &str = "\
SESSION is the beginning of a session's name, or of its random part, or a path.
Unsaid, it is the latest.

Exit codes of verify:
  0    every record is what was written, to its last whole event
  1    a record was changed, cut or added to
  125  a record cannot be read";

#[derive(Args)]
pub(crate) struct AuditArgs {
    /// The directory of the records [default: where `stockade run` keeps them].
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: AuditCommand,
}

#[derive(Subcommand)]
pub(crate) enum AuditCommand {
    /// List sessions, the latest first.
    Ls(LsArgs),
    /// Print the events of a session.
    Show(SessionArgs),
    /// Print the events of a session as they are written, until it ends.
    Follow(SessionArgs),
    /// Check that records are unchanged.
    Verify(Choice),
    /// Count the requests of a session by host, method, status and verdict.
    Summary(Choice),
    /// Remove old records.
    Prune(PruneArgs),
}

#[derive(Args)]
pub(crate) struct LsArgs {
    /// The maximum number of sessions.
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    pub(crate) limit: usize,
}

#[derive(Args)]
pub(crate) struct SessionArgs {
    /// The session [default: the latest].
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,
}

#[derive(Args)]
pub(crate) struct Choice {
    /// The session [default: the latest].
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// All sessions.
    #[arg(long, conflicts_with = "session")]
    pub(crate) all: bool,
}

#[derive(Args)]
pub(crate) struct PruneArgs {
    /// Records of sessions that started at least this long ago, such as 30d, 12h or 0s.
    #[arg(long, value_name = "TIME", value_parser = amount::age)]
    pub(crate) older_than: u64,
    /// Keep this many of the latest records, regardless of age.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) keep: usize,
    /// Only print what would be removed.
    #[arg(long)]
    pub(crate) dry_run: bool,
}
