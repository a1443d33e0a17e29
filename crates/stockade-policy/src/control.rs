//! The closed list of what a policy can ask a wall to enforce.

use std::path::Path;

use serde::{Serialize, Serializer};

use crate::limits::{LIMITS, Limit};
use crate::paths::Access;
use crate::policy::{NetworkDefault, Policy, Workspace, WorkspaceMode};
use crate::source::Basis;

/// One enforceable thing. The list is closed: a wall refuses a control that it does not implement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Control {
    /// The wall is at least as strong as the policy's floor.
    Isolation,
    /// Usage of a resource stays below a limit.
    Limit(Limit),
    /// No host file is visible except those that the policy names.
    HiddenHost,
    /// Host files that can be read and not changed.
    ReadPaths,
    /// Host files that can be changed.
    WritePaths,
    /// Host files that have another path inside than outside.
    MovedPaths,
    /// Paths inside where nothing is visible.
    HidePaths,
    /// The working directory.
    Workspace,
    /// Changes to a host directory that stay in the sandbox.
    WorkspaceLayer,
    /// No Unix socket of the host is reachable through a writable directory.
    HostSockets,
    /// No traffic leaves except through the network gate.
    NetworkDeny,
    /// Hosts reached by name.
    NetworkHosts,
    /// Any public host can be reached.
    NetworkPublic,
    /// Hosts, addresses and ranges that can never be reached.
    NetworkBlock,
    /// Methods and paths of requests.
    NetworkRequests,
    /// Secrets that the gate adds to requests outside the sandbox.
    Secrets,
    /// Executables that may be started.
    Commands,
    /// Tools that may be called.
    Tools,
    /// The environment starts empty.
    Environment,
    /// The system calls that stay allowed.
    SystemCalls,
    /// A seccomp profile that tightens further.
    SeccompProfile,
    /// Rules over code, commands and tool calls.
    CodeRules,
    /// Nothing remains when the sandbox ends.
    Cleanup,
}

impl Control {
    /// Every control, in the order of reports.
    pub fn all() -> Vec<Control> {
        let mut all = vec![Control::Isolation];
        all.extend(LIMITS.iter().map(|spec| Control::Limit(spec.limit)));
        all.extend([
            Control::HiddenHost,
            Control::ReadPaths,
            Control::WritePaths,
            Control::MovedPaths,
            Control::HidePaths,
            Control::Workspace,
            Control::WorkspaceLayer,
            Control::HostSockets,
            Control::NetworkDeny,
            Control::NetworkHosts,
            Control::NetworkPublic,
            Control::NetworkBlock,
            Control::NetworkRequests,
            Control::Secrets,
            Control::Commands,
            Control::Tools,
            Control::Environment,
            Control::SystemCalls,
            Control::SeccompProfile,
            Control::CodeRules,
            Control::Cleanup,
        ]);
        all
    }

    /// The control's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Control::Isolation => "isolation",
            Control::Limit(limit) => limit.spec().key,
            Control::HiddenHost => "hidden_host",
            Control::ReadPaths => "read_paths",
            Control::WritePaths => "write_paths",
            Control::MovedPaths => "moved_paths",
            Control::HidePaths => "hide_paths",
            Control::Workspace => "workspace",
            Control::WorkspaceLayer => "workspace_layer",
            Control::HostSockets => "host_sockets",
            Control::NetworkDeny => "network_deny",
            Control::NetworkHosts => "network_hosts",
            Control::NetworkPublic => "network_public",
            Control::NetworkBlock => "network_block",
            Control::NetworkRequests => "network_requests",
            Control::Secrets => "secrets",
            Control::Commands => "commands",
            Control::Tools => "tools",
            Control::Environment => "environment",
            Control::SystemCalls => "system_calls",
            Control::SeccompProfile => "seccomp_profile",
            Control::CodeRules => "code_rules",
            Control::Cleanup => "cleanup",
        }
    }

    /// Whether it may be approximated: limits with rlimits and a watchdog, host sockets with a search
    /// before the start. Every other permission is exact or refused.
    pub fn may_be_approximate(self) -> bool {
        matches!(self, Control::Limit(_) | Control::HostSockets)
    }
}

impl Serialize for Control {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One control that a policy requires.
#[derive(Clone, Debug, Serialize)]
pub struct Requirement {
    /// What must be enforced.
    pub control: Control,
    /// The clause of the policy that requires it.
    pub clause: String,
    /// The requirement in words.
    pub asks: String,
    /// The line, or the built-in rule.
    #[serde(rename = "asked_by")]
    pub basis: Basis,
    /// Whether an approximation is refused.
    pub exact: bool,
}

impl Policy {
    /// Everything that this policy requires from a wall, in a fixed order.
    pub fn requirements(&self) -> Vec<Requirement> {
        let mut list = Requirements {
            exact_limits: self.limits.exact.value,
            exact_files: self.files_exact.value,
            found: Vec::new(),
        };
        let floor = format!("{} or stronger", self.isolation.value.as_str());
        list.add(Control::Isolation, "isolation", floor, &self.isolation.basis);
        for spec in &LIMITS {
            if let Some(held) = self.limits.get(spec.limit) {
                let amount = format!("{} {}", spec.unit.write(held.value), spec.unit.as_str());
                let asks = format!("at most {}", amount.trim_end());
                list.add(Control::Limit(spec.limit), &spec.path(), asks, &held.basis);
            }
        }
        self.file_requirements(&mut list);
        self.network_requirements(&mut list);
        self.program_requirements(&mut list);
        list.found
    }

    fn file_requirements(&self, list: &mut Requirements) {
        list.always(Control::HiddenHost, "filesystem", "no other host file is visible");
        for mount in &self.mounts {
            let control = match mount.access {
                Access::Read => Control::ReadPaths,
                Access::Write => Control::WritePaths,
            };
            let asks = format!("{} at {}", mount.host.display(), mount.guest);
            list.add(control, mount.clause, asks, &mount.basis);
            if mount.host != Path::new(mount.guest.as_str()) {
                let asks = format!("{} in the place of {}", mount.guest, mount.host.display());
                list.add(Control::MovedPaths, mount.clause, asks, &mount.basis);
            }
            if mount.access == Access::Write || self.has_entry_below(&mount.host) {
                list.sockets(mount.clause, &mount.host, &mount.basis);
            }
        }
        for hide in &self.hide {
            let asks = format!("nothing at {}", hide.value);
            list.add(Control::HidePaths, "filesystem.hide", asks, &hide.basis);
        }
        let asks = match &self.workspace.value {
            Workspace::Scratch => "an empty writable directory".to_owned(),
            Workspace::Nothing => "no working directory".to_owned(),
            Workspace::Host { host, mode } => match mode {
                WorkspaceMode::Read => format!("{}, read-only", host.display()),
                WorkspaceMode::Overlay => format!("{} below a private layer", host.display()),
                WorkspaceMode::Write => format!("{}, writable", host.display()),
            },
        };
        list.add(Control::Workspace, "filesystem.workspace", asks, &self.workspace.basis);
        if let Workspace::Host { host, mode } = &self.workspace.value
            && match mode {
                WorkspaceMode::Write => true,
                WorkspaceMode::Read => self.has_entry_below(host),
                WorkspaceMode::Overlay => false,
            }
        {
            list.sockets("filesystem.workspace", host, &self.workspace.basis);
        }
        if let Workspace::Host { host, mode: WorkspaceMode::Overlay } = &self.workspace.value {
            let asks = format!("changes to {} stay inside", host.display());
            let basis = &self.workspace.basis;
            list.add(Control::WorkspaceLayer, "filesystem.workspace", asks, basis);
        }
    }

    /// Whether the policy names a host path below this one. A mount point may be there, and a
    /// read-only directory with one below it has no layer that keeps sockets away.
    fn has_entry_below(&self, host: &Path) -> bool {
        let workspace = match &self.workspace.value {
            Workspace::Host { host, .. } => Some(host),
            Workspace::Scratch | Workspace::Nothing => None,
        };
        let mut entries = self.mounts.iter().map(|mount| &mount.host).chain(workspace);
        entries.any(|entry| entry != host && entry.starts_with(host))
    }

    fn network_requirements(&self, list: &mut Requirements) {
        list.always(Control::NetworkDeny, "network", "no traffic leaves except through the gate");
        for gate in self.gates.iter().map(|gate| &gate.network) {
            if gate.default.value == NetworkDefault::Allow {
                let asks = "any public host, on the ports of network_ports".to_owned();
                let clause = "defaults.network_default";
                list.add(Control::NetworkPublic, clause, asks, &gate.default.basis);
            }
            for entry in &gate.entries {
                let speech = entry.protocol.as_str();
                let asks = format!("{} on {}, {speech}", entry.host, list_of(&entry.ports));
                list.add(Control::NetworkHosts, "network_allowlist", asks, &entry.basis);
                if entry.opens_tls() {
                    let asks = format!("requests to {}, one by one", entry.host);
                    list.add(Control::NetworkRequests, "network_allowlist", asks, &entry.basis);
                }
            }
        }
        for blocked in &self.network_blocklist {
            let asks = format!("never {}", blocked.value);
            list.add(Control::NetworkBlock, "network_blocklist", asks, &blocked.basis);
        }
        for secret in &self.secrets {
            let asks = format!("{} only on the way to its hosts", secret.name);
            list.add(Control::Secrets, "secrets", asks, &secret.basis);
        }
    }

    fn program_requirements(&self, list: &mut Requirements) {
        if let Some(commands) = &self.commands {
            let names: Vec<&str> = commands.value.iter().map(|name| name.value.as_str()).collect();
            let asks = if names.is_empty() {
                "nothing but the interpreter is started".to_owned()
            } else {
                format!("only {} are started", names.join(", "))
            };
            list.add(Control::Commands, "command_allowlist", asks, &commands.basis);
        }
        for tool in &self.tools.value {
            let asks = format!("{} may be called", tool.value);
            list.add(Control::Tools, "tool_allowlist", asks, &tool.basis);
        }
        list.always(
            Control::Environment,
            "environment",
            "variables only from the policy and caller",
        );
        list.always(Control::SystemCalls, "seccomp", "the built-in list of system calls");
        for profile in &self.seccomp {
            let asks = format!("tightened by {}", profile.value.display());
            list.add(Control::SeccompProfile, "seccomp", asks, &profile.basis);
        }
        for gate in &self.gates {
            let ruled = !gate.code.rules.is_empty() || gate.code.default.basis.origin().is_some();
            if ruled {
                let default = gate.code.default.value.as_str();
                let asks = match gate.code.rules.len() {
                    0 => default.to_owned(),
                    1 => format!("1 rule, then {default}"),
                    count => format!("{count} rules, then {default}"),
                };
                list.add(Control::CodeRules, "rules", asks, &gate.code.default.basis);
            }
        }
        list.always(Control::Cleanup, "sandbox", "nothing remains when it ends");
    }
}

struct Requirements {
    exact_limits: bool,
    exact_files: bool,
    found: Vec<Requirement>,
}

impl Requirements {
    fn add(&mut self, control: Control, clause: &str, asks: String, basis: &Basis) {
        let asked = match control {
            Control::HostSockets => self.exact_files,
            _ => self.exact_limits,
        };
        let exact = !control.may_be_approximate() || asked;
        let clause = clause.to_owned();
        self.found.push(Requirement { control, clause, asks, basis: basis.clone(), exact });
    }

    fn sockets(&mut self, clause: &str, host: &Path, basis: &Basis) {
        let asks = format!("no Unix socket of the host is reached through {}", host.display());
        self.add(Control::HostSockets, clause, asks, basis);
    }

    fn always(&mut self, control: Control, clause: &str, asks: &str) {
        let basis = Basis::BuiltIn { rule: "required of every wall" };
        self.add(control, clause, asks.to_owned(), &basis);
    }
}

fn list_of(ports: &[u16]) -> String {
    let words: Vec<String> = ports.iter().map(u16::to_string).collect();
    match words.as_slice() {
        [] => "no port".to_owned(),
        [port] => format!("port {port}"),
        ports => format!("ports {}", ports.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a policy asks of sockets: the host paths, in order.
    fn sockets_of(text: &str) -> Vec<String> {
        let policy = Policy::parse_str("p", text, Path::new("/srv/p")).unwrap();
        let requirements = policy.requirements().into_iter();
        let sockets = requirements.filter(|it| it.control == Control::HostSockets);
        let through = |asks: &str| asks.rsplit(' ').next().map(str::to_owned);
        sockets.filter_map(|it| through(&it.asks)).collect()
    }

    #[test]
    fn read_only_directory_with_an_entry_below_it_asks_about_sockets() {
        for (text, expected) in [
            ("{read: [/data, /data/disk]}", &["/data"][..]),
            ("{read: [/data, {host: /data/disk, guest: /other}]}", &["/data"]),
            ("{read: [/data, /data/a, /data/a/b]}", &["/data", "/data/a"]),
            ("{read: [/data], write: [/data/out]}", &["/data", "/data/out"]),
            ("{read: [/data], workspace: {host: /data/w, mode: overlay}}", &["/data"]),
            ("{read: [/data/x], workspace: {host: /data, mode: read}}", &["/data"]),
            ("{workspace: {host: /data, mode: write}}", &["/data"]),
        ] {
            assert_eq!(sockets_of(&format!("filesystem: {text}")), expected, "{text}");
        }
    }

    #[test]
    fn directory_that_always_has_a_layer_asks_nothing_about_sockets() {
        for text in [
            "{read: [/data]}",
            "{read: [/data, /database]}",
            "{read: [/data, {host: /other, guest: /data/other}]}",
            "{read: [/data], workspace: {host: /data, mode: overlay}}",
            "{read: [/data/x], workspace: {host: /data, mode: overlay}}",
        ] {
            assert_eq!(sockets_of(&format!("filesystem: {text}")), Vec::<String>::new(), "{text}");
        }
    }
}
