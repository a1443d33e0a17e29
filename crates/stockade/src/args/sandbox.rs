//! Arguments that describe a sandbox, for one program or for a session.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use stockade_backends::{RUNTIMES, provider_names};
use stockade_policy::Isolation;

use crate::run::amount::{self, Amount};

pub(super) const LIMITS: &str = "Limits";
pub(super) const FILES: &str = "Files and variables";
pub(super) const NETWORK: &str = "Network";
pub(super) const PROGRAM: &str = "Program and output";
pub(super) const WALL: &str = "Policy and wall";

/// A sandbox.
#[derive(Args)]
pub(crate) struct SandboxArgs {
    #[command(flatten)]
    pub(crate) flags: PolicyFlags,
    /// Set a variable inside, or pass one through.
    ///
    /// Names that look like credentials are refused, and so are those that change what a loader or
    /// an interpreter runs. May be repeated.
    #[arg(long, value_name = "NAME[=VALUE]", help_heading = FILES)]
    pub(crate) env: Vec<String>,
    /// Set the variables of a file inside.
    ///
    /// Each line is NAME=VALUE; `#` starts a comment line and nothing is expanded. Names that look
    /// like credentials need --env-secret too. May be repeated.
    #[arg(long, value_name = "FILE", help_heading = FILES)]
    pub(crate) env_file: Vec<PathBuf>,
    /// Pass a credential in, by its name.
    ///
    /// Its value comes from --env-file or from your own environment. The program can read it, and
    /// send it to every host that it may reach. The record names it without its value. May be
    /// repeated.
    #[arg(long, value_name = "NAME", help_heading = FILES, hide_short_help = true)]
    pub(crate) env_secret: Vec<String>,
    /// Use a directory as `/`, read-only.
    ///
    /// An unpacked image works. Its own programs run instead of the host's.
    #[arg(long, value_name = "DIR", help_heading = FILES)]
    pub(crate) root: Option<PathBuf>,
    /// Use an image.
    ///
    /// With --provider native, one of `stockade image import`. Otherwise one that the Docker engine
    /// has already: Stockade downloads nothing. It implies --provider docker, whose default is
    /// python:3.11-slim, or node:22-slim for JavaScript. Without a program, or with arguments after
    /// `--` and an image with an ENTRYPOINT, the image's own program runs.
    #[arg(
        long,
        value_name = "IMAGE",
        help_heading = FILES,
        hide_short_help = true,
        conflicts_with = "root"
    )]
    pub(crate) image: Option<String>,
    /// Run as a user of the image.
    ///
    /// A name of its /etc/passwd or a number; user 0 is refused.
    #[arg(
        long,
        value_name = "NAME|UID",
        help_heading = FILES,
        hide_short_help = true,
        requires = "image"
    )]
    pub(crate) user: Option<String>,
    /// The Python: an executable or an environment.
    ///
    /// An activated environment is used automatically.
    #[arg(long, value_name = "PATH", help_heading = PROGRAM)]
    pub(crate) python: Option<PathBuf>,
    /// Offer the tools of a file to the program.
    ///
    /// Commands, HTTP endpoints and MCP servers of this host, which code inside calls by name; see
    /// docs/tools.md. Without a policy, the program may call all of them; with one, only those in
    /// tool_allowlist. May be repeated.
    #[arg(long, value_name = "FILE", help_heading = PROGRAM)]
    pub(crate) tools: Vec<PathBuf>,
    /// Keep the record of this run in a directory.
    ///
    /// Stockade creates it if it is missing; it must be yours and closed to others. The default is
    /// stockade/sessions in $XDG_STATE_HOME, else in ~/.local/state. `stockade audit` reads it.
    #[arg(long, value_name = "DIR", help_heading = PROGRAM, conflicts_with = "no_record")]
    pub(crate) record: Option<PathBuf>,
    /// Keep no record.
    #[arg(long, help_heading = PROGRAM, hide_short_help = true)]
    pub(crate) no_record: bool,
    /// What is allowed [default: preset `default`].
    ///
    /// `-` is standard input. May be repeated: several policies are combined, which only narrows.
    /// With a policy, other options only tighten it, except --allow-host.
    #[arg(long, value_name = "FILE", help_heading = WALL)]
    pub(crate) policy: Vec<PathBuf>,
    /// The wall [default: the fastest that works].
    ///
    /// By default the fastest wall that enforces the policy runs the program. This version has
    /// native, reduced and docker.
    #[arg(
        long,
        value_name = "PROVIDER",
        help_heading = WALL,
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(provider_names())
    )]
    pub(crate) provider: Option<String>,
    /// The runtime of the container [default: auto].
    ///
    /// One of auto, runc, crun, runsc and kata-runtime. auto is the strongest that starts. Implies
    /// --provider docker.
    #[arg(
        long,
        value_name = "RUNTIME",
        help_heading = WALL,
        hide_short_help = true,
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(RUNTIMES)
    )]
    pub(crate) runtime: Option<String>,
    /// The address of the Docker engine.
    ///
    /// Such as unix:///run/user/1000/docker.sock. By default DOCKER_HOST, DOCKER_CONTEXT and the
    /// current context decide, as for the docker command. Implies --provider docker.
    #[arg(long, value_name = "URL", help_heading = WALL, hide_short_help = true)]
    pub(crate) docker_url: Option<String>,
}

impl SandboxArgs {
    /// The files with policies, tools and variables.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &Path> {
        self.policy.iter().chain(&self.tools).chain(&self.env_file).map(PathBuf::as_path)
    }
}

/// Flags that add to the preset, or tighten the policies.
#[derive(Args, Default)]
pub(crate) struct PolicyFlags {
    /// Memory, files included [default: 512m].
    #[arg(long, value_name = "SIZE", help_heading = LIMITS, allow_hyphen_values = true, value_parser = amount::size)]
    pub(crate) memory: Option<Amount>,
    /// Writable files [default: half of the memory].
    #[arg(long, value_name = "SIZE", help_heading = LIMITS, allow_hyphen_values = true, value_parser = amount::size)]
    pub(crate) disk: Option<Amount>,
    /// Processors [default: 1].
    #[arg(long, value_name = "NUMBER", help_heading = LIMITS, allow_hyphen_values = true, value_parser = amount::cpus)]
    pub(crate) cpus: Option<Amount>,
    /// Wall-clock time, with ms, s, m or h [default: 60s].
    #[arg(long, value_name = "TIME", help_heading = LIMITS, allow_hyphen_values = true, value_parser = amount::time)]
    pub(crate) timeout: Option<Amount>,
    /// Processes and threads at once [default: 256].
    #[arg(long, value_name = "NUMBER", help_heading = LIMITS, allow_hyphen_values = true, value_parser = amount::count)]
    pub(crate) pids: Option<Amount>,
    /// Output that is kept [default: 1m].
    ///
    /// The rest is counted and dropped.
    #[arg(long, value_name = "SIZE", help_heading = LIMITS, allow_hyphen_values = true, value_parser = amount::size)]
    pub(crate) max_output: Option<Amount>,
    /// Tool calls in total [default: 10].
    #[arg(long, value_name = "NUMBER", help_heading = LIMITS, hide_short_help = true, allow_hyphen_values = true, value_parser = amount::count)]
    pub(crate) max_tool_calls: Option<Amount>,
    /// Show a file or directory inside.
    ///
    /// Read-only unless `:rw` is added. May be repeated.
    #[arg(long, value_name = "HOST:GUEST[:rw]", help_heading = FILES)]
    pub(crate) mount: Vec<String>,
    /// Show a directory at /workspace.
    ///
    /// Programs start there. Modes are overlay, the default, which keeps changes in the sandbox;
    /// read, which allows no changes; and write, which makes them on the host.
    #[arg(long, value_name = "DIR[:MODE]", help_heading = FILES)]
    pub(crate) workspace: Option<String>,
    /// Allow a host, on ports 80 and 443.
    ///
    /// `example.org:8080` allows only that port, and `*.example.org` every host below it. By
    /// default nothing is reachable. With a policy, the host is added to what the policy allows;
    /// blocked hosts stay blocked. May be repeated.
    #[arg(long, value_name = "HOST[:PORT]", help_heading = NETWORK)]
    pub(crate) allow_host: Vec<String>,
    /// Never reach a host, address or range.
    ///
    /// It overrides everything that is allowed. May be repeated.
    #[arg(long, value_name = "HOST", help_heading = NETWORK)]
    pub(crate) block_host: Vec<String>,
    /// The weakest allowed wall [default: process].
    ///
    /// One of process, container, user-kernel and vm.
    #[arg(
        long,
        value_name = "FLOOR",
        help_heading = WALL,
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(Isolation::ALL.map(Isolation::as_str))
    )]
    pub(crate) isolation: Option<String>,
    /// The flag `--ttl` of `create`.
    #[arg(skip)]
    pub(crate) ttl: Option<Amount>,
    /// The flag `--idle` of `create`.
    #[arg(skip)]
    pub(crate) idle: Option<Amount>,
}
