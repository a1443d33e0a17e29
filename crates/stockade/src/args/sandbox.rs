//! Arguments that describe a sandbox, for one program or for a session.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use stockade_backends::{AzureChoice, RUNTIMES, provider_names};
use stockade_image::Pull;
use stockade_policy::Isolation;

use crate::run::amount::{self, Amount};

use super::state::Origin;

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
    /// With --provider native, one of `stockade image import`, and with --provider qemu, one of
    /// `stockade image build --vm`. Otherwise one of the Docker engine, which implies --provider
    /// docker. Its default is the hardened image if the engine has it, else
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
    /// Let the engine download the image [default: never].
    ///
    /// One of never, missing and always. missing downloads an image that the engine does not have.
    /// The hardened image is built and never downloaded. Implies --provider docker.
    #[arg(
        long,
        value_name = "WHEN",
        help_heading = FILES,
        hide_short_help = true,
        hide_possible_values = true,
        conflicts_with = "root",
        value_parser = PossibleValuesParser::new(Pull::NAMES)
    )]
    pub(crate) pull: Option<String>,
    /// Use the hardened image or none.
    ///
    /// `stockade image build --hardened` builds it. Without it the run fails. Implies --provider
    /// docker.
    #[arg(
        long,
        help_heading = FILES,
        hide_short_help = true,
        conflicts_with_all = ["image", "root", "pull"]
    )]
    pub(crate) require_hardened_image: bool,
    /// Run as a user of the image.
    ///
    /// A name of its /etc/passwd or a number; user 0 is refused except in a virtual machine.
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
    /// native, reduced, docker, qemu and aca; the last only when it is named.
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
    /// Use the Linux system on a disk, with --provider qemu.
    ///
    /// A qcow2 file with a file system of Linux, such as ext4. It is never written: changes are
    /// thrown away with the machine. The kernel is that of --image, or of the image `default`.
    #[arg(long, value_name = "FILE", help_heading = FILES, hide_short_help = true)]
    pub(crate) vm_disk: Option<PathBuf>,
    /// Refused: machines start from an image of `stockade image build --vm`.
    #[arg(long, value_name = "FILE", help_heading = WALL, hide = true)]
    pub(crate) vm_iso: Option<PathBuf>,
    /// Refused: machines start from an image of `stockade image build --vm`.
    #[arg(long, value_name = "FILE", help_heading = WALL, hide = true)]
    pub(crate) cloud_init: Option<PathBuf>,
    /// The address of the Docker engine.
    ///
    /// Such as unix:///run/user/1000/docker.sock. By default DOCKER_HOST, DOCKER_CONTEXT and the
    /// current context decide, as for the docker command. Implies --provider docker.
    #[arg(long, value_name = "URL", help_heading = WALL, hide_short_help = true)]
    pub(crate) docker_url: Option<String>,
    /// The checkpoint from which everything comes that files would say.
    #[arg(skip)]
    pub(crate) origin: Option<Origin>,
    #[command(flatten)]
    pub(crate) azure: AzureArgs,
}

/// The sandbox group of Azure Container Apps. Each implies --provider aca.
#[derive(Args, Clone, Default)]
pub(crate) struct AzureArgs {
    /// The resource group of --provider aca.
    ///
    /// It must exist. Otherwise STOCKADE_ACA_RESOURCE_GROUP names it. This option and the others of
    /// its kind imply --provider aca; docs/azure.md explains them.
    #[arg(long, value_name = "NAME", help_heading = WALL, hide_short_help = true)]
    pub(crate) aca_resource_group: Option<String>,
    /// The sandbox group of --provider aca.
    ///
    /// Otherwise STOCKADE_ACA_SANDBOX_GROUP names it.
    #[arg(long, value_name = "NAME", help_heading = WALL, hide_short_help = true)]
    pub(crate) aca_sandbox_group: Option<String>,
    /// The subscription of --provider aca.
    ///
    /// Otherwise AZURE_SUBSCRIPTION_ID names it.
    #[arg(long, value_name = "ID", help_heading = WALL, hide_short_help = true)]
    pub(crate) aca_subscription: Option<String>,
    /// The region of --provider aca, such as eastus2.
    ///
    /// Otherwise STOCKADE_ACA_REGION or AZURE_SANDBOX_REGION names it.
    #[arg(long, value_name = "REGION", help_heading = WALL, hide_short_help = true)]
    pub(crate) aca_region: Option<String>,
    /// The address of the data plane, instead of the region's.
    ///
    /// Otherwise STOCKADE_ACA_ENDPOINT names it. Only https.
    #[arg(long, value_name = "URL", help_heading = WALL, hide_short_help = true)]
    pub(crate) aca_endpoint: Option<String>,
    /// The public disk image of --provider aca [default: python-3.13].
    ///
    /// It must have python3. Otherwise STOCKADE_ACA_DISK names it.
    #[arg(long, value_name = "NAME", help_heading = WALL, hide_short_help = true)]
    pub(crate) aca_disk: Option<String>,
    /// Create the sandbox group in a region if it is missing.
    ///
    /// Otherwise STOCKADE_ACA_ENSURE_GROUP_LOCATION names the region.
    #[arg(long, value_name = "REGION", help_heading = WALL, hide_short_help = true)]
    pub(crate) aca_ensure_group: Option<String>,
}

impl AzureArgs {
    /// Whether any of them is used.
    pub(crate) fn is_used(&self) -> bool {
        let all = [
            &self.aca_resource_group,
            &self.aca_sandbox_group,
            &self.aca_subscription,
            &self.aca_region,
            &self.aca_endpoint,
            &self.aca_disk,
            &self.aca_ensure_group,
        ];
        all.into_iter().any(Option::is_some)
    }

    /// The choice of a sandbox group.
    pub(crate) fn choice(&self) -> AzureChoice {
        AzureChoice {
            resource_group: self.aca_resource_group.clone(),
            sandbox_group: self.aca_sandbox_group.clone(),
            subscription_id: self.aca_subscription.clone(),
            region: self.aca_region.clone(),
            endpoint: self.aca_endpoint.clone(),
            disk: self.aca_disk.clone(),
            ensure_group_location: self.aca_ensure_group.clone(),
            ..AzureChoice::default()
        }
    }
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
    /// Allow requests, such as `GET https://api.example.org/repos/**`.
    ///
    /// Methods, separated by commas, and a URL with a pattern of the path; without methods any, and
    /// without a path any. The gate ends TLS to the host and judges every request. A URL such as
    /// `tcp://127.0.0.1:5432` allows any bytes, also without the proxy on this machine's loopback.
    /// May be repeated.
    #[arg(long, value_name = "[METHODS ]URL", help_heading = NETWORK)]
    pub(crate) allow: Vec<String>,
    /// Record every request to the allowed hosts, also inside TLS.
    ///
    /// The gate ends TLS with an authority that only this sandbox trusts, and verifies the servers.
    /// With --learn, the learned policy names methods and paths.
    #[arg(long, help_heading = NETWORK)]
    pub(crate) inspect: bool,
    /// Send a secret to a host, such as `API_KEY=env:API_KEY@api.example.org`.
    ///
    /// Inside, the variable holds a random placeholder. The gate replaces it in the header
    /// Authorization of https requests to the host, which must be allowed too. The source is
    /// env:NAME, file:PATH or command:PROGRAM. May be repeated.
    #[arg(long, value_name = "NAME=SOURCE@HOST", help_heading = NETWORK)]
    pub(crate) secret: Vec<String>,
    /// Never reach a host, address or range.
    ///
    /// It overrides everything that is allowed. May be repeated.
    #[arg(long, value_name = "HOST", help_heading = NETWORK)]
    pub(crate) block_host: Vec<String>,
    /// The weakest allowed wall [default: process].
    ///
    /// One of process, container, user-kernel, translated-vm and vm.
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
