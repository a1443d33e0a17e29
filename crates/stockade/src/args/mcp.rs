//! Arguments of `stockade mcp`.

use clap::Args;

use crate::run::amount::{self, Amount};

use super::sandbox::{LIMITS, PROGRAM, SandboxArgs};
use super::sessions::CreateArgs;

pub(super) const HELP: &str = "\
Examples:
  stockade mcp --policy policy.yaml
  stockade mcp --workspace . --allow-host example.org

An MCP client starts this command; docs/mcp.md has what to write into its settings. The
options are what a sandbox may have at most: a call can only ask for less. The sandboxes
are sessions, which `stockade ls` lists, and end with this command.";

#[derive(Args)]
pub(crate) struct McpArgs {
    /// Let sandboxes live on after this command, until --ttl or --idle.
    #[arg(long, help_heading = PROGRAM)]
    pub(crate) keep: bool,
    /// Sandboxes at once.
    #[arg(long, value_name = "NUMBER", default_value_t = 8, help_heading = LIMITS, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) max_sandboxes: u16,
    /// Age at which a sandbox ends, with s, m or h [default: 1h].
    #[arg(long, value_name = "TIME", help_heading = LIMITS, allow_hyphen_values = true, value_parser = amount::time)]
    pub(crate) ttl: Option<Amount>,
    /// Time without a call after which a sandbox ends [default: 10m].
    #[arg(long, value_name = "TIME", help_heading = LIMITS, allow_hyphen_values = true, value_parser = amount::time)]
    pub(crate) idle: Option<Amount>,
    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
}

impl McpArgs {
    /// The session of one sandbox.
    pub(crate) fn created(self) -> CreateArgs {
        let McpArgs { ttl, idle, sandbox, .. } = self;
        CreateArgs { name: None, ttl, idle, from_checkpoint: None, sandbox }
    }
}
