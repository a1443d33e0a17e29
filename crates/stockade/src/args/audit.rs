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
    /// Print the events of a session as they come, to its end.
    Follow(SessionArgs),
    /// Check that records are what was written.
    Verify(Choice),
    /// Count the requests of a session by host, method, status and verdict.
    Summary(Choice),
    /// Remove old records.
    Prune(PruneArgs),
}

#[derive(Args)]
pub(crate) struct LsArgs {
    /// At most so many.
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    pub(crate) limit: usize,
}

#[derive(Args)]
pub(crate) struct SessionArgs {
    /// The session; the latest when unsaid.
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,
}

#[derive(Args)]
pub(crate) struct Choice {
    /// The session; the latest when unsaid.
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// Every session.
    #[arg(long, conflicts_with = "session")]
    pub(crate) all: bool,
}

#[derive(Args)]
pub(crate) struct PruneArgs {
    /// Those of sessions that began so long ago, such as 30d, 12h or 0s.
    #[arg(long, value_name = "TIME", value_parser = amount::age)]
    pub(crate) older_than: u64,
    /// Keep this many of the latest, however old.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) keep: usize,
    /// Only say what would be removed.
    #[arg(long)]
    pub(crate) dry_run: bool,
}
