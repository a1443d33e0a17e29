//! Judging hosts, addresses and requests.

use std::net::{IpAddr, SocketAddrV4};

use crate::address::{AddressKind, classify, is_metadata_name};
use crate::control::Control;
use crate::host::Host;
use crate::pattern::HostPattern;
use crate::policy::{
    Inspect, NetworkDefault, NetworkEntry, NetworkGate, Policy, PolicyGate, Protocol,
};
use crate::request::{Method, UrlPath};
use crate::source::Basis;
use crate::verdict::{Effect, Verdict};

/// The connection or request to judge.
struct Question<'a> {
    host: &'a Host,
    port: u16,
    request: Option<(&'a Method, &'a UrlPath)>,
}

/// One gate's answer.
struct Answer {
    allowed: bool,
    control: Control,
    basis: Basis,
    why: String,
    change: String,
}

impl Policy {
    /// Whether any host could be allowed at all.
    pub fn may_reach_anything(&self) -> bool {
        let opens = |gate: &NetworkGate| {
            gate.default.value == NetworkDefault::Allow || !gate.entries.is_empty()
        };
        !self.gates.is_empty() && self.gates.iter().all(|gate| opens(&gate.network))
    }

    /// This policy with the hosts that `caller` allows and blocks, its secrets, and nothing else of `caller`.
    /// This widens the policy, so `caller` must come from the same person who may choose the
    /// policy, such as a command line; the blocklist still wins. A secret of `caller` replaces one
    /// with the same name, so a front end refuses that first.
    pub fn with_hosts_of_caller(&self, caller: &Policy) -> Policy {
        let mut with = self.clone();
        let allowed = || caller.gates.iter().flat_map(|gate| &gate.network.entries);
        for gate in &mut with.gates {
            gate.network.entries.extend(allowed().cloned());
        }
        with.network_blocklist.extend(caller.network_blocklist.iter().cloned());
        let replaced = |name: &str| caller.secrets.iter().any(|own| own.name == name);
        with.secrets.retain(|secret| !replaced(&secret.name));
        with.secrets.extend(caller.secrets.iter().cloned());
        with
    }

    /// This policy with the requests to every allowed host read and recorded. This allows nothing
    /// more.
    pub fn inspecting(mut self) -> Policy {
        for entry in self.gates.iter_mut().flat_map(|gate| &mut gate.network.entries) {
            if entry.protocol != Protocol::Tcp {
                entry.inspect = Inspect::Requests;
            }
        }
        self
    }

    /// Judges opening a connection to a host name or literal, before it is resolved.
    pub fn judge_host(&self, host: &Host, port: u16) -> Verdict {
        self.judge_network(&Question { host, port, request: None })
    }

    /// The loopback addresses that lead to services of the host for every program: literals of the
    /// allowlist with `protocol: tcp`. Each once, in the order of the policy.
    pub fn direct_loopback(&self) -> Vec<SocketAddrV4> {
        let mut found = Vec::new();
        for entry in self.gates.iter().flat_map(|gate| &gate.network.entries) {
            let HostPattern::Exact(host @ Host::Address(IpAddr::V4(address))) = &entry.host else {
                continue;
            };
            for port in entry.ports.iter().filter(|_| address.is_loopback()) {
                let place = SocketAddrV4::new(*address, *port);
                let is_direct = self.protocol_for(host, *port) == Some(Protocol::Tcp);
                if is_direct && !found.contains(&place) {
                    found.push(place);
                }
            }
        }
        found
    }

    /// Judges one request on a connection to an allowed host.
    pub fn judge_request(
        &self,
        host: &Host,
        port: u16,
        method: &Method,
        path: &UrlPath,
    ) -> Verdict {
        self.judge_network(&Question { host, port, request: Some((method, path)) })
    }

    /// Judges resolving a host: allowed if some port of it is.
    pub fn judge_name(&self, host: &Host) -> Verdict {
        let target = host.to_string();
        if let Some(answer) = self.refused_outright(host) {
            return verdict_of(target, answer);
        }
        let Some((first, rest)) = self.gates.split_first() else {
            return verdict_of(target, unlisted_name(host));
        };
        let mut refusal = None;
        for port in ports_for(&first.network, host) {
            let question = Question { host, port, request: None };
            let answer = ask(&first.network, &question);
            let others = rest.iter().map(|gate| ask(&gate.network, &question));
            match others.chain([answer]).reduce(|held, next| if held.allowed { next } else { held })
            {
                Some(answer) if answer.allowed => return verdict_of(target, answer),
                answer => refusal = refusal.or(answer),
            }
        }
        verdict_of(target, refusal.unwrap_or_else(|| unlisted_name(host)))
    }

    /// The refusal of a host that no allowlist can open: a blocked one, or a metadata service.
    pub fn judge_outright(&self, host: &Host) -> Option<Verdict> {
        self.refused_outright(host).map(|answer| verdict_of(host.to_string(), answer))
    }

    /// The protocol that every gate allows with a host; `None` if they have none in common.
    pub fn protocol_for(&self, host: &Host, port: u16) -> Option<Protocol> {
        if !self.judge_host(host, port).allows() {
            return None;
        }
        let spoken = self.gates.iter().map(|gate| spoken(&gate.network, host, port));
        spoken.reduce(|held, next| held?.both(next?)).flatten()
    }

    /// The flag of the command line that first allows a host, if no entry of a policy text does.
    pub fn flag_for(&self, host: &Host, port: u16) -> Option<&str> {
        let entries = self.gates.iter().flat_map(|gate| open_entries(&gate.network, host, port));
        let flags: Option<Vec<&str>> = entries.map(|entry| flag_of(&entry.basis)).collect();
        flags?.first().copied()
    }

    /// Whether some gate allows only certain requests to a host, so that each request must be
    /// parsed.
    pub fn judges_requests(&self, host: &Host, port: u16) -> bool {
        self.gates.iter().any(|gate| {
            let mut open = open_entries(&gate.network, host, port).peekable();
            open.peek().is_some() && open.all(NetworkEntry::inspects_requests)
        })
    }

    /// Whether an entry for a host names more than ports: methods, paths or a protocol.
    pub fn has_conditions(&self, host: &Host) -> bool {
        self.gates.iter().any(|gate| {
            let mut deciding = deciding_entries(&gate.network, host).into_iter();
            deciding.any(|entry| entry.inspects_requests() || entry.protocol != Protocol::Web)
        })
    }

    /// Whether the gate reads the requests to a host, and so ends TLS: an entry asks for it, or a
    /// secret is sent there.
    pub fn reads_requests(&self, host: &Host, port: u16) -> bool {
        let is_inspected = |gate: &PolicyGate| {
            let mut open = open_entries(&gate.network, host, port);
            open.any(|entry| entry.inspect == Inspect::Requests)
        };
        self.judges_requests(host, port)
            || self.gates.iter().any(is_inspected)
            || self.sends_secrets(host)
    }

    /// Whether some secret is sent to a host.
    pub fn sends_secrets(&self, host: &Host) -> bool {
        self.secrets.iter().any(|secret| secret.hosts.iter().any(|bound| bound.matches(host)))
    }

    /// Whether the requests to some host are read, so that programs must trust the gate.
    pub fn may_read_requests(&self) -> bool {
        let mut entries = self.gates.iter().flat_map(|gate| &gate.network.entries);
        entries.any(NetworkEntry::opens_tls) || !self.secrets.is_empty()
    }

    /// Judges an address of the gate's own machine: allowed only if every allowlist contains its
    /// literal, even if it is public.
    pub fn judge_own_address(&self, host: &Host, port: u16, address: IpAddr) -> Verdict {
        let verdict = self.judge_address(host, port, address);
        let literal = HostPattern::Exact(Host::Address(address));
        let listed = self.gates.iter().all(|gate| {
            let mut entries = gate.network.entries.iter();
            entries.any(|entry| entry.host == literal && entry.ports.contains(&port))
        });
        if !verdict.allows() || listed {
            return verdict;
        }
        let why = format!("{host} leads to an address of this machine itself");
        let change = format!("add the literal {} to network_allowlist", Host::Address(address));
        let basis =
            Basis::BuiltIn { rule: "this machine is reachable only by its literal address" };
        let control = Control::NetworkHosts;
        verdict_of(verdict.target, Answer { allowed: false, control, basis, why, change })
    }

    /// Judges the address that a host resolved to, before it is dialled. Refuses everything that
    /// `judge_host` refuses.
    pub fn judge_address(&self, host: &Host, port: u16, address: IpAddr) -> Verdict {
        let verdict = self.judge_host(host, port);
        if !verdict.allows() {
            return verdict;
        }
        let target = format!("{host}:{port} at {address}");
        if let Some(answer) = self.refused_outright(&Host::Address(address)) {
            return verdict_of(target, answer);
        }
        let kind = classify(address);
        let spelled_out =
            self.gates.iter().all(|gate| spells_out(&gate.network, host, address, port));
        if kind == AddressKind::Public || spelled_out {
            return Verdict { target, ..verdict };
        }
        let why = format!("{host} resolves to {}", kind.as_str());
        let change = format!("add the literal {} to network_allowlist", Host::Address(address));
        let basis = Basis::BuiltIn { rule: "a name may only resolve to public addresses" };
        let control = Control::NetworkHosts;
        verdict_of(target, Answer { allowed: false, control, basis, why, change })
    }

    fn judge_network(&self, question: &Question<'_>) -> Verdict {
        let host = question.host;
        let target = match question.request {
            Some((method, path)) => format!("{method} {host}:{}{}", question.port, path.as_str()),
            None => format!("{host}:{}", question.port),
        };
        if let Some(answer) = self.refused_outright(host) {
            return verdict_of(target, answer);
        }
        let mut first: Option<Answer> = None;
        for gate in &self.gates {
            let answer = ask(&gate.network, question);
            if !answer.allowed {
                return verdict_of(target, answer);
            }
            first = first.or(Some(answer));
        }
        // A policy always has a gate; without one everything is denied.
        verdict_of(target, first.unwrap_or_else(|| unlisted(host, question.port)))
    }

    /// What no allowlist can open: the blocklist, and metadata services.
    fn refused_outright(&self, host: &Host) -> Option<Answer> {
        let blocked = self.network_blocklist.iter().find(|entry| match host {
            Host::Name(_) => entry.value.matches_host(host),
            Host::Address(address) => {
                entry.value.matches_host(host) || entry.value.matches_address(*address)
            }
        });
        if let Some(entry) = blocked {
            return Some(Answer {
                allowed: false,
                control: Control::NetworkBlock,
                basis: entry.basis.clone(),
                why: format!("network_blocklist names {}, and it always wins", entry.value),
                change: match flag_of(&entry.basis) {
                    Some(flag) => format!("leave {flag} out"),
                    None => format!("remove {} from network_blocklist", entry.value),
                },
            });
        }
        let metadata = match host {
            Host::Name(name) => is_metadata_name(name),
            Host::Address(address) => classify(*address) == AddressKind::Metadata,
        };
        metadata.then(|| Answer {
            allowed: false,
            control: Control::NetworkHosts,
            basis: Basis::BuiltIn { rule: "metadata services are never allowed" },
            why: "it is a cloud metadata service, which serves the host's credentials".to_owned(),
            change: "nothing: pass what is needed as a file, a tool or a secret".to_owned(),
        })
    }
}

/// Asks one gate. Only the most specific pattern that matches the host decides: an entry for
/// `*.github.com` does not widen one for `api.github.com`.
fn ask(gate: &NetworkGate, question: &Question<'_>) -> Answer {
    let deciding = deciding_entries(gate, question.host);
    if deciding.is_empty() {
        return ask_default(gate, question);
    }
    let open: Vec<&NetworkEntry> =
        deciding.iter().copied().filter(|entry| entry.ports.contains(&question.port)).collect();
    match (open.as_slice(), question.request) {
        ([], _) => closed_port(deciding[0], question.port),
        ([entry, ..], None) => allowed(entry),
        (open, Some((method, path))) => {
            let passing = open.iter().find(|entry| lets_through(entry, method, path));
            passing.map_or_else(|| wrong_request(open, method, path), |entry| allowed(entry))
        }
    }
}

/// The entries with the most specific pattern for the host.
fn deciding_entries<'a>(gate: &'a NetworkGate, host: &Host) -> Vec<&'a NetworkEntry> {
    let named = || gate.entries.iter().filter(|entry| entry.host.matches(host));
    let best = named().map(|entry| entry.host.specificity()).max();
    named().filter(|entry| Some(entry.host.specificity()) == best).collect()
}

fn open_entries<'a>(
    gate: &'a NetworkGate,
    host: &Host,
    port: u16,
) -> impl Iterator<Item = &'a NetworkEntry> {
    deciding_entries(gate, host).into_iter().filter(move |entry| entry.ports.contains(&port))
}

/// The ports on which a gate could let a host through.
fn ports_for(gate: &NetworkGate, host: &Host) -> Vec<u16> {
    let deciding = deciding_entries(gate, host);
    match (deciding.is_empty(), gate.default.value) {
        (false, _) => deciding.iter().flat_map(|entry| entry.ports.iter().copied()).collect(),
        (true, NetworkDefault::Allow) => gate.ports.value.clone(),
        (true, NetworkDefault::Deny) => Vec::new(),
    }
}

/// The protocols that one gate allows with a host: the union of its entries.
fn spoken(gate: &NetworkGate, host: &Host, port: u16) -> Option<Protocol> {
    if deciding_entries(gate, host).is_empty() {
        return Some(Protocol::Web);
    }
    open_entries(gate, host, port).map(|entry| entry.protocol).reduce(Protocol::either)
}

fn ask_default(gate: &NetworkGate, question: &Question<'_>) -> Answer {
    let Question { host, port, .. } = question;
    if gate.default.value == NetworkDefault::Deny {
        return Answer { basis: gate.default.basis.clone(), ..unlisted(host, *port) };
    }
    let kind = match host {
        Host::Name(_) => AddressKind::Public,
        Host::Address(address) => classify(*address),
    };
    let basis = gate.default.basis.clone();
    let control = Control::NetworkPublic;
    if kind != AddressKind::Public {
        let why = format!("it is {}, and network_default opens public hosts only", kind.as_str());
        let change = format!("add the literal {host} to network_allowlist");
        return Answer { allowed: false, control, basis, why, change };
    }
    if !gate.ports.value.contains(port) {
        let why = format!("network_ports does not name port {port}");
        let change = format!("add {port} to network_ports");
        return Answer { allowed: false, control, basis: gate.ports.basis.clone(), why, change };
    }
    let why = "network_default allows any public host".to_owned();
    let change = "set defaults.network_default to deny, or add it to network_blocklist".to_owned();
    Answer { allowed: true, control, basis, why, change }
}

fn unlisted(host: &Host, port: u16) -> Answer {
    Answer {
        allowed: false,
        control: Control::NetworkHosts,
        basis: Basis::BuiltIn { rule: "denied by default" },
        why: format!("network_allowlist does not name {host}"),
        change: format!("add `{host}:{port}` to network_allowlist"),
    }
}

fn unlisted_name(host: &Host) -> Answer {
    Answer { change: format!("add `{host}` to network_allowlist"), ..unlisted(host, 443) }
}

fn closed_port(entry: &NetworkEntry, port: u16) -> Answer {
    let ports: Vec<String> = entry.ports.iter().map(u16::to_string).collect();
    Answer {
        allowed: false,
        control: Control::NetworkHosts,
        basis: entry.basis.clone(),
        why: format!("{} is allowed on ports [{}] only", entry.host, ports.join(", ")),
        change: match flag_of(&entry.basis) {
            Some(_) => format!("pass --allow-host {}:{port} too", entry.host),
            None => format!("add {port} to the ports of {}", entry.host),
        },
    }
}

/// The flag of the command line that a clause comes from.
fn flag_of(basis: &Basis) -> Option<&str> {
    basis.origin().filter(|origin| origin.line == 0).map(|origin| &*origin.text)
}

/// The scheme, host and port of `--allow METHODS URL`, as they were written.
fn allowed_origin(flag: &str) -> Option<&str> {
    let url = flag.strip_prefix("--allow ")?.split_whitespace().next_back()?;
    let host = url.find("://")? + "://".len();
    Some(url[host..].find('/').map_or(url, |end| &url[..host + end]))
}

fn lets_through(entry: &NetworkEntry, method: &Method, path: &UrlPath) -> bool {
    let method_fits = entry.methods.as_ref().is_none_or(|methods| methods.contains(method));
    let path_fits =
        entry.paths.as_ref().is_none_or(|paths| paths.iter().any(|pattern| pattern.matches(path)));
    method_fits && path_fits
}

/// The refusal of a request that no entry for its host lets through. The entry that comes closest is
/// the basis: one that names the path, but not the method.
fn wrong_request(entries: &[&NetworkEntry], method: &Method, path: &UrlPath) -> Answer {
    /// The most entries that a refusal names.
    const MOST: usize = 8;
    let names_path = |entry: &&&NetworkEntry| {
        let paths = entry.paths.as_ref();
        paths.is_none_or(|paths| paths.iter().any(|pattern| pattern.matches(path)))
    };
    let entry = entries.iter().find(names_path).unwrap_or(&entries[0]);
    let path = path.as_str();
    let method_fits = entry.methods.as_ref().is_none_or(|methods| methods.contains(method));
    let change = match flag_of(&entry.basis).and_then(allowed_origin) {
        Some(origin) => {
            let word = format!("{method} {origin}{path}").replace('\'', r"'\''");
            format!("pass --allow '{word}' too")
        }
        None if method_fits => format!("add `{path}` to the paths of {}", entry.host),
        None => format!("add {method} to the methods of {}", entry.host),
    };
    let mut allowed: Vec<String> = Vec::new();
    for requests in entries.iter().map(|entry| requests_of(entry)) {
        if !allowed.contains(&requests) {
            allowed.push(requests);
        }
    }
    let more = match allowed.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!("; and by {more} more entries"),
    };
    allowed.truncate(MOST);
    Answer {
        allowed: false,
        control: Control::NetworkRequests,
        basis: entry.basis.clone(),
        why: format!("{} is allowed {} only{more}", entry.host, allowed.join("; ")),
        change,
    }
}

fn allowed(entry: &NetworkEntry) -> Answer {
    let mut restriction = match entry.protocol {
        Protocol::Web => String::new(),
        Protocol::Tls | Protocol::Http => format!(", {} only", entry.protocol.as_str()),
        Protocol::Tcp => ", any bytes".to_owned(),
    };
    if entry.inspects_requests() {
        restriction.push_str(&format!(", {} only", requests_of(entry)));
    }
    Answer {
        allowed: true,
        control: Control::NetworkHosts,
        basis: entry.basis.clone(),
        why: format!("network_allowlist names {}{restriction}", entry.host),
        change: format!(
            "remove {} from network_allowlist, or add it to network_blocklist",
            entry.host
        ),
    }
}

fn requests_of(entry: &NetworkEntry) -> String {
    let methods = entry
        .methods
        .as_ref()
        .map(|methods| methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", "));
    let paths = entry
        .paths
        .as_ref()
        .map(|paths| paths.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
    match (methods, paths) {
        (Some(methods), Some(paths)) => format!("for {methods} on {paths}"),
        (Some(methods), None) => format!("for {methods}"),
        (None, Some(paths)) => format!("on {paths}"),
        (None, None) => "for every request".to_owned(),
    }
}

/// Whether an allowlist contains the address itself, in an entry that also opens it to a name. A
/// name that only the default allows, or an entry that restricts requests, is not enough: the owner
/// of a name decides what it resolves to. The connection must satisfy the protocols of both the
/// literal's and the name's entry.
fn spells_out(gate: &NetworkGate, host: &Host, address: IpAddr, port: u16) -> bool {
    let literal = HostPattern::Exact(Host::Address(address));
    let named = gate.entries.iter().any(|entry| entry.host.matches(host));
    let open = gate.entries.iter().any(|entry| {
        entry.host == literal && entry.ports.contains(&port) && !entry.inspects_requests()
    });
    *host == Host::Address(address) || (named && open)
}

fn verdict_of(target: String, answer: Answer) -> Verdict {
    let Answer { allowed, control, basis, why, change } = answer;
    let effect = if allowed { Effect::Allow } else { Effect::Deny };
    Verdict { effect, control, target, basis, why, change }
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
