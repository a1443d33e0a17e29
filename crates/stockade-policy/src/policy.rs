//! A checked policy.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::limits::Limits;
use crate::paths::{Access, GuestPath};
use crate::pattern::{BlockPattern, HostPattern};
use crate::request::{Method, PathPattern};
use crate::rules::CodeGate;
use crate::source::{Basis, Sourced};

/// The longest name of a policy.
pub(crate) const MAX_NAME_CHARS: usize = 200;

/// How strong the wall must be at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Landlock, seccomp and rlimits without any namespace, for hosts that forbid them.
    Reduced,
    /// Namespaces, Landlock and seccomp on the host's kernel.
    Process,
    /// A container of an engine.
    Container,
    /// A kernel of its own in user space.
    UserKernel,
    /// A virtual machine.
    Vm,
}

impl Isolation {
    /// Every floor, weakest first.
    pub const ALL: [Isolation; 5] = [
        Isolation::Reduced,
        Isolation::Process,
        Isolation::Container,
        Isolation::UserKernel,
        Isolation::Vm,
    ];

    /// The word a policy writes.
    pub fn as_str(self) -> &'static str {
        match self {
            Isolation::Reduced => "reduced",
            Isolation::Process => "process",
            Isolation::Container => "container",
            Isolation::UserKernel => "user-kernel",
            Isolation::Vm => "vm",
        }
    }
}

/// A checked policy: what is allowed, every default filled in.
///
/// Values come from parsing or combining. Two policies are equal when they allow the same by the
/// same clauses, wherever those were written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// The policy's name, for people.
    pub name: String,
    /// What it is for, for people.
    pub description: String,
    /// The weakest wall it accepts.
    pub isolation: Sourced<Isolation>,
    /// What may be used up.
    pub limits: Limits,
    /// Host files that are visible inside.
    pub mounts: Vec<Mount>,
    /// Places inside where nothing is visible, whatever a mount or the workspace has there.
    pub hide: Vec<Sourced<GuestPath>>,
    /// The working directory.
    pub workspace: Sourced<Workspace>,
    /// Whether a wall that holds a clause about files only approximately is refused.
    pub files_exact: Sourced<bool>,
    /// Code rules and network lists; each gate must allow. One per combined policy.
    pub gates: Vec<Gate>,
    /// Hosts, addresses and ranges that are never reached.
    pub network_blocklist: Vec<Sourced<BlockPattern>>,
    /// Values the gate puts into requests; they never enter the sandbox.
    pub secrets: Vec<Secret>,
    /// Tools that code inside may call.
    pub tools: Sourced<Vec<Sourced<String>>>,
    /// Whether the record of a call to a tool holds its arguments.
    pub tool_arguments: Sourced<ToolArguments>,
    /// Executables that may be started; `None` is any in the root.
    pub commands: Option<Sourced<Vec<Sourced<String>>>>,
    /// Environment variables set inside.
    pub environment: Vec<Variable>,
    /// Seccomp profiles that tighten the built-in one; absolute host paths.
    pub seccomp: Vec<Sourced<PathBuf>>,
}

impl Policy {
    /// Whether a host file can be read or changed from inside, by its path.
    pub(crate) fn shows_host_file(&self, file: &Path, access: Access) -> bool {
        let mounted = self.mounts.iter().any(|mount| {
            file.starts_with(&mount.host)
                && (access == Access::Read || mount.access == Access::Write)
        });
        let in_workspace = match &self.workspace.value {
            Workspace::Host { host, mode } => {
                let reached = access == Access::Read || *mode == WorkspaceMode::Write;
                reached && file.starts_with(host)
            }
            Workspace::Scratch | Workspace::Nothing => false,
        };
        mounted || in_workspace
    }
}

/// A part of the host's files that is visible inside.
#[derive(Clone, Debug)]
pub struct Mount {
    /// Absolute path on the host.
    pub host: PathBuf,
    /// Where it stands inside.
    pub guest: GuestPath,
    /// Whether it may be changed.
    pub access: Access,
    /// The clause that asked for it.
    pub clause: &'static str,
    /// Where it did.
    pub basis: Basis,
}

impl PartialEq for Mount {
    fn eq(&self, other: &Mount) -> bool {
        (&self.host, &self.guest, self.access) == (&other.host, &other.guest, other.access)
    }
}

impl Eq for Mount {}

/// What stands at the working directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workspace {
    /// An empty directory of the sandbox's own.
    Scratch,
    /// A host directory.
    Host {
        /// Absolute path on the host.
        host: PathBuf,
        /// What writing does.
        mode: WorkspaceMode,
    },
    /// Nothing that can be read or written: two combined policies had no workspace in common.
    Nothing,
}

/// What writing to a host workspace does, most harmless first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceMode {
    /// It fails.
    Read,
    /// It goes to a private layer; the host directory stays as it is.
    Overlay,
    /// It changes the host directory.
    Write,
}

impl WorkspaceMode {
    /// The word a policy writes.
    pub fn as_str(self) -> &'static str {
        match self {
            WorkspaceMode::Read => "read",
            WorkspaceMode::Overlay => "overlay",
            WorkspaceMode::Write => "write",
        }
    }
}

/// Whether the record of a call to a tool holds its arguments, which may be private.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolArguments {
    /// It does not.
    Omit,
    /// It does, shortened where they are long.
    Record,
}

impl ToolArguments {
    /// Both, the stricter first.
    pub const ALL: [ToolArguments; 2] = [ToolArguments::Omit, ToolArguments::Record];

    /// The word a policy writes.
    pub fn as_str(self) -> &'static str {
        match self {
            ToolArguments::Omit => "omit",
            ToolArguments::Record => "record",
        }
    }
}

/// Most policies that can be combined into one.
pub const MAX_GATES: usize = 16;

/// The clauses that are judged per act and cannot be merged into one list: a combined policy has
/// one gate per part, and an act passes when every gate lets it.
///
/// Two gates are equal when they let the same through, whatever they are called.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The name of the policy it came from.
    pub name: String,
    /// Rules over code, commands and tool calls.
    pub code: CodeGate,
    /// Hosts that may be reached.
    pub network: NetworkGate,
}

impl PartialEq for Gate {
    fn eq(&self, other: &Gate) -> bool {
        (&self.code, &self.network) == (&other.code, &other.network)
    }
}

impl Eq for Gate {}

/// Hosts that one policy lets through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkGate {
    /// Whether a public host that no entry names is allowed.
    pub default: Sourced<NetworkDefault>,
    /// Ports for what names none of its own.
    pub ports: Sourced<Vec<u16>>,
    /// Allowed hosts.
    pub entries: Vec<NetworkEntry>,
}

/// What happens to a host that no entry names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkDefault {
    /// Refused.
    Deny,
    /// Allowed when its address is public.
    Allow,
}

impl NetworkDefault {
    /// The word a policy writes.
    pub fn as_str(self) -> &'static str {
        match self {
            NetworkDefault::Deny => "deny",
            NetworkDefault::Allow => "allow",
        }
    }
}

/// One line of the allowlist.
#[derive(Clone, Debug)]
pub struct NetworkEntry {
    /// Which hosts.
    pub host: HostPattern,
    /// Which ports, sorted.
    pub ports: Vec<u16>,
    /// What is spoken.
    pub protocol: Protocol,
    /// Which methods; `None` is any.
    pub methods: Option<Vec<Method>>,
    /// Which paths; `None` is any.
    pub paths: Option<Vec<PathPattern>>,
    /// The line that says so.
    pub basis: Basis,
}

impl NetworkEntry {
    /// Whether requests must be looked at one by one.
    pub fn inspects_requests(&self) -> bool {
        self.methods.is_some() || self.paths.is_some()
    }
}

impl PartialEq for NetworkEntry {
    fn eq(&self, other: &NetworkEntry) -> bool {
        self.host == other.host
            && self.ports == other.ports
            && self.protocol == other.protocol
            && self.methods == other.methods
            && self.paths == other.paths
    }
}

impl Eq for NetworkEntry {}

/// What an allowlist entry expects on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// TLS or HTTP, whichever comes, checked against the name that was allowed.
    Web,
    /// TLS only.
    Tls,
    /// HTTP without TLS only.
    Http,
    /// Any bytes; for protocols in which the server speaks first.
    Tcp,
}

impl Protocol {
    /// The word a policy writes; for what it leaves unsaid, both words.
    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::Web => "tls or http",
            Protocol::Tls => "tls",
            Protocol::Http => "http",
            Protocol::Tcp => "tcp",
        }
    }

    /// What both let pass; `None` is nothing.
    pub fn both(self, other: Protocol) -> Option<Protocol> {
        match (self, other) {
            (Protocol::Tcp, same) | (same, Protocol::Tcp) => Some(same),
            (Protocol::Web, same) | (same, Protocol::Web) => Some(same),
            (Protocol::Tls, Protocol::Tls) | (Protocol::Http, Protocol::Http) => Some(self),
            (Protocol::Tls, Protocol::Http) | (Protocol::Http, Protocol::Tls) => None,
        }
    }

    /// What either lets pass.
    pub fn either(self, other: Protocol) -> Protocol {
        match (self, other) {
            (Protocol::Tcp, _) | (_, Protocol::Tcp) => Protocol::Tcp,
            _ if self == other => self,
            _ => Protocol::Web,
        }
    }
}

/// A value the gate puts into requests to certain hosts.
#[derive(Clone, Debug)]
pub struct Secret {
    /// The variable inside that holds the placeholder.
    pub name: String,
    /// Where the host finds the value.
    pub from: SecretSource,
    /// The hosts it is sent to, sorted.
    pub hosts: Vec<HostPattern>,
    /// The header that carries it.
    pub header: String,
    /// How the header's value is written; `{}` is the secret.
    pub format: String,
    /// The line that says so.
    pub basis: Basis,
}

impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        self.name == other.name
            && self.from == other.from
            && self.hosts == other.hosts
            && self.header == other.header
            && self.format == other.format
    }
}

impl Eq for Secret {}

/// Where the host finds a secret's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// A variable of Stockade's own environment.
    Environment(String),
    /// The content of a file; absolute host path.
    File(PathBuf),
}

/// An environment variable set inside.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The line that says so.
    pub basis: Basis,
}

impl PartialEq for Variable {
    fn eq(&self, other: &Variable) -> bool {
        (&self.name, &self.value) == (&other.name, &other.value)
    }
}

impl Eq for Variable {}
