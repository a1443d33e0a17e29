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

/// The minimum strength of the wall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Landlock, seccomp and rlimits without any namespace, for hosts that forbid them.
    Reduced,
    /// Namespaces, Landlock and seccomp on the host's kernel.
    Process,
    /// A container of a container engine.
    Container,
    /// A kernel in user space, such as gVisor.
    UserKernel,
    /// A virtual machine whose instructions a program translates, such as QEMU without KVM.
    TranslatedVm,
    /// A virtual machine that the processor separates from the host.
    Vm,
}

impl Isolation {
    /// Every level, weakest first.
    pub const ALL: [Isolation; 6] = [
        Isolation::Reduced,
        Isolation::Process,
        Isolation::Container,
        Isolation::UserKernel,
        Isolation::TranslatedVm,
        Isolation::Vm,
    ];

    /// The word in a policy.
    pub fn as_str(self) -> &'static str {
        match self {
            Isolation::Reduced => "reduced",
            Isolation::Process => "process",
            Isolation::Container => "container",
            Isolation::UserKernel => "user-kernel",
            Isolation::TranslatedVm => "translated-vm",
            Isolation::Vm => "vm",
        }
    }
}

/// A checked policy, with every default filled in.
///
/// Parsing or combining creates it. Two policies are equal if they allow the same by the same
/// clauses, wherever those are written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// The policy's name, for people.
    pub name: String,
    /// Its purpose, for people.
    pub description: String,
    /// The weakest accepted wall.
    pub isolation: Sourced<Isolation>,
    /// The resource limits.
    pub limits: Limits,
    /// Host files that are visible inside.
    pub mounts: Vec<Mount>,
    /// Paths inside where nothing is visible, even if a mount or the workspace has files there.
    pub hide: Vec<Sourced<GuestPath>>,
    /// The working directory.
    pub workspace: Sourced<Workspace>,
    /// Whether to refuse a wall that enforces a clause about files only approximately.
    pub files_exact: Sourced<bool>,
    /// Code rules and network lists, one gate per combined policy; every gate must allow.
    pub gates: Vec<PolicyGate>,
    /// Hosts, addresses and ranges that can never be reached.
    pub network_blocklist: Vec<Sourced<BlockPattern>>,
    /// Values that the gate adds to requests; they never enter the sandbox.
    pub secrets: Vec<Secret>,
    /// Tools that code inside may call.
    pub tools: Sourced<Vec<Sourced<String>>>,
    /// Whether the record of a tool call contains its arguments.
    pub tool_arguments: Sourced<ToolArguments>,
    /// Executables that may start; `None` is any in the root.
    pub commands: Option<Sourced<Vec<Sourced<String>>>>,
    /// Environment variables set inside.
    pub environment: Vec<Variable>,
    /// Seccomp profiles that tighten the built-in one; absolute host paths.
    pub seccomp: Vec<Sourced<PathBuf>>,
}

impl Policy {
    /// Whether code inside can read or change a host file, by its path.
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

/// A host path that is visible inside.
#[derive(Clone, Debug)]
pub struct Mount {
    /// Absolute path on the host.
    pub host: PathBuf,
    /// Its path inside.
    pub guest: GuestPath,
    /// Whether code inside may change it.
    pub access: Access,
    /// The clause that defines it.
    pub clause: &'static str,
    /// The place of the definition.
    pub basis: Basis,
}

impl PartialEq for Mount {
    fn eq(&self, other: &Mount) -> bool {
        (&self.host, &self.guest, self.access) == (&other.host, &other.guest, other.access)
    }
}

impl Eq for Mount {}

/// The contents of the working directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workspace {
    /// A new empty directory.
    Scratch,
    /// A host directory.
    Host {
        /// Absolute path on the host.
        host: PathBuf,
        /// The effect of writing.
        mode: WorkspaceMode,
    },
    /// No readable or writable directory: two combined policies had no workspace in common.
    Nothing,
}

/// The effect of writing to a host workspace, safest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceMode {
    /// Writing fails.
    Read,
    /// Changes go to a private layer; the host directory stays unchanged.
    Overlay,
    /// Changes reach the host directory.
    Write,
}

impl WorkspaceMode {
    /// The word in a policy.
    pub fn as_str(self) -> &'static str {
        match self {
            WorkspaceMode::Read => "read",
            WorkspaceMode::Overlay => "overlay",
            WorkspaceMode::Write => "write",
        }
    }
}

/// Whether the record of a tool call contains its arguments, which may be private.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolArguments {
    /// Without arguments.
    Omit,
    /// With arguments, shortened if they are long.
    Record,
}

impl ToolArguments {
    /// Both, the stricter first.
    pub const ALL: [ToolArguments; 2] = [ToolArguments::Omit, ToolArguments::Record];

    /// The word in a policy.
    pub fn as_str(self) -> &'static str {
        match self {
            ToolArguments::Omit => "omit",
            ToolArguments::Record => "record",
        }
    }
}

/// The most policies that can be combined into one.
pub const MAX_GATES: usize = 16;

/// Clauses that are judged per act and cannot be merged into one list: a combined policy has one
/// gate per part, and every gate must allow an act.
///
/// Two gates are equal if they allow the same, independent of their names.
#[derive(Clone, Debug)]
pub struct PolicyGate {
    /// The name of its policy.
    pub name: String,
    /// Rules over code, commands and tool calls.
    pub code: CodeGate,
    /// The reachable hosts.
    pub network: NetworkGate,
}

impl PartialEq for PolicyGate {
    fn eq(&self, other: &PolicyGate) -> bool {
        (&self.code, &self.network) == (&other.code, &other.network)
    }
}

impl Eq for PolicyGate {}

/// The hosts that one policy allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkGate {
    /// Whether a public host without an entry is allowed.
    pub default: Sourced<NetworkDefault>,
    /// The ports of entries that name none.
    pub ports: Sourced<Vec<u16>>,
    /// Allowed hosts.
    pub entries: Vec<NetworkEntry>,
}

/// What happens to a host without an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkDefault {
    /// Refused.
    Deny,
    /// Allowed if its address is public.
    Allow,
}

impl NetworkDefault {
    /// The word in a policy.
    pub fn as_str(self) -> &'static str {
        match self {
            NetworkDefault::Deny => "deny",
            NetworkDefault::Allow => "allow",
        }
    }
}

/// One allowlist entry.
#[derive(Clone, Debug)]
pub struct NetworkEntry {
    /// The hosts.
    pub host: HostPattern,
    /// The ports, sorted.
    pub ports: Vec<u16>,
    /// The protocol.
    pub protocol: Protocol,
    /// The methods; `None` is any.
    pub methods: Option<Vec<Method>>,
    /// The paths; `None` is any.
    pub paths: Option<Vec<PathPattern>>,
    /// Whether the gate reads every request, also inside TLS.
    pub inspect: Inspect,
    /// The line that defines it.
    pub basis: Basis,
}

/// Whether the gate reads requests that no rule concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Inspect {
    /// TLS passes through untouched.
    #[default]
    Pass,
    /// The gate ends TLS and records every request.
    Requests,
}

impl NetworkEntry {
    /// Whether requests must be judged one by one.
    pub fn inspects_requests(&self) -> bool {
        self.methods.is_some() || self.paths.is_some()
    }

    /// Whether the gate ends TLS to read requests.
    pub fn opens_tls(&self) -> bool {
        self.inspects_requests() || self.inspect == Inspect::Requests
    }
}

impl PartialEq for NetworkEntry {
    fn eq(&self, other: &NetworkEntry) -> bool {
        self.host == other.host
            && self.ports == other.ports
            && self.protocol == other.protocol
            && self.methods == other.methods
            && self.paths == other.paths
            && self.inspect == other.inspect
    }
}

impl Eq for NetworkEntry {}

/// The protocol that an allowlist entry expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// TLS or HTTP, detected from the first bytes and checked against the allowed name.
    Web,
    /// TLS only.
    Tls,
    /// HTTP without TLS only.
    Http,
    /// Any bytes; for protocols in which the server sends first.
    Tcp,
}

impl Protocol {
    /// The word in a policy; for the default, both words.
    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::Web => "tls or http",
            Protocol::Tls => "tls",
            Protocol::Http => "http",
            Protocol::Tcp => "tcp",
        }
    }

    /// The protocols that both allow; `None` if they have none in common.
    pub fn both(self, other: Protocol) -> Option<Protocol> {
        match (self, other) {
            (Protocol::Tcp, same) | (same, Protocol::Tcp) => Some(same),
            (Protocol::Web, same) | (same, Protocol::Web) => Some(same),
            (Protocol::Tls, Protocol::Tls) | (Protocol::Http, Protocol::Http) => Some(self),
            (Protocol::Tls, Protocol::Http) | (Protocol::Http, Protocol::Tls) => None,
        }
    }

    /// The protocols that either allows.
    pub fn either(self, other: Protocol) -> Protocol {
        match (self, other) {
            (Protocol::Tcp, _) | (_, Protocol::Tcp) => Protocol::Tcp,
            _ if self == other => self,
            _ => Protocol::Web,
        }
    }
}

/// A value that the gate adds to requests to certain hosts.
#[derive(Clone, Debug)]
pub struct Secret {
    /// The environment variable inside with the placeholder.
    pub name: String,
    /// The source of the value on the host.
    pub from: SecretSource,
    /// The hosts it is sent to, sorted.
    pub hosts: Vec<HostPattern>,
    /// The place in a request that carries it.
    pub place: SecretPlace,
    /// The line that defines it.
    pub basis: Basis,
}

impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        self.name == other.name
            && self.from == other.from
            && self.hosts == other.hosts
            && self.place == other.place
    }
}

impl Eq for Secret {}

/// The only place in a request where the gate replaces a placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretPlace {
    /// The value of a header.
    Header {
        /// The header's name.
        name: String,
        /// The format of the value; `{}` is the secret. `{}` alone allows any text around it.
        format: String,
    },
    /// The value of a parameter in the query of the URL.
    Query {
        /// The parameter's name.
        name: String,
    },
    /// The user or the password of basic authentication.
    Basic,
}

impl std::fmt::Display for SecretPlace {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SecretPlace::Header { name, .. } => write!(formatter, "header {name}"),
            SecretPlace::Query { name } => write!(formatter, "query parameter {name}"),
            SecretPlace::Basic => formatter.write_str("basic authentication"),
        }
    }
}

/// The source of a secret's value on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// A variable of Stockade's own environment.
    Environment(String),
    /// The content of a file; absolute host path.
    File(PathBuf),
    /// The output of a program of the host, as its words; no shell reads them.
    Command(Vec<String>),
}

/// An environment variable set inside.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The line that defines it.
    pub basis: Basis,
}

impl PartialEq for Variable {
    fn eq(&self, other: &Variable) -> bool {
        (&self.name, &self.value) == (&other.name, &other.value)
    }
}

impl Eq for Variable {}
