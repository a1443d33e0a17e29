//! Arguments of `stockade bench`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::bench::{PEERS, ROW_NAMES};

pub(super) const HELP: &str = "\
Rows:
  run          `stockade run -- /bin/true` next to each peer around /bin/true
  python-cli   a new sandbox to its first Python result, through this command line
  python-api   the same through the Rust interface
  destroy      ending a sandbox, as its caller sees it
  idle-memory  what a sandbox costs that does nothing
  download     one HTTPS download through the gate, next to curl without a sandbox
  request      one HTTPS request through the gate, on a new connection
  request-kept the same on a connection that is there
  download-opened, request-opened, request-opened-kept
               the same where TLS ends at the gate, which judges each request
  tool-call    one call of a tool from Python inside, beyond the tool itself
  exec         one more execution in a session, next to bwrap
  code         one more execution of Python code in a session, next to the bare interpreter
  session-destroy  removing a session, as its client sees it
  session-memory   what a session costs that does nothing, its supervisor included
  crowd        the slowest executions with 100 sessions alive, next to those with one
  mcp-run-code code run by an MCP client, next to the same call of the engine
  mcp-run-code code run by an MCP client, next to the same call of the engine
  python-snippets  200 snippets through the Python package, next to 200 times `python3 -c`
  docker-run   a new Docker sandbox, next to `docker run` with the same image
  docker-exec  one more execution in it, next to `docker run` and `docker exec`
  docker-destroy   removing a Docker sandbox, as its client sees it
  vm-boot      a virtual machine that boots, next to a plain boot of the same kernel
  vm-run       one that continues a saved one, next to both
  vm-exec      one more execution in it, next to the plain boot
  rounds       1000 runs, 10 at a time, and what is left of them

Every side of a row is measured in turns, by one clock: once back to back, and once 300 ms apart,
because a quiet kernel is slower. Each round's exit code and output are checked.";

#[derive(Args)]
pub(crate) struct BenchArgs {
    /// The rows to measure [default: all].
    #[arg(
        long,
        value_name = "ROW,…",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(ROW_NAMES),
        hide_possible_values = true
    )]
    pub(crate) rows: Vec<String>,
    /// The peers to compare with [default: all on this machine].
    #[arg(
        long,
        value_name = "PEER,…",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(PEERS)
    )]
    pub(crate) against: Vec<String>,
    /// How many times each side is measured.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(3..=10_000))]
    pub(crate) rounds: u32,
    /// The size of the download.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) megabytes: u32,
    /// The local image that the peer docker runs [default: the first found].
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// Write a page with charts to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}
