//! The rules that a gate currently applies.

use std::net::IpAddr;
use std::sync::Arc;

use stockade_policy::{
    AddressKind, Basis, Control, Denial, Effect, Host, HostPattern, Method, Policy, Protocol,
    UrlPath, Verdict, classify,
};

/// The source of the decisions.
#[derive(Clone, Debug)]
pub(crate) enum Rules {
    /// A policy.
    Policy(Arc<Policy>),
    /// Every public host passes and is recorded. Limits, the blocklist, literal entries for other
    /// addresses, and hosts whose entries have conditions come from the policy.
    Learning(Arc<Policy>, Learns),
    /// Nothing passes any more.
    Closed(&'static str),
}

/// What a gate learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learns {
    /// Hosts and ports, and methods and paths of plain HTTP. TLS passes through untouched, except
    /// to the hosts of secrets and to those whose requests the policy reads.
    Hosts,
    /// Methods and paths inside TLS too, which ends at the gate.
    Requests,
}

/// The protocol of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    /// TLS to the allowed name.
    Tls,
    /// TLS with one request, which the wall makes and describes.
    Request,
    /// TLS that ends at the gate, with HTTP inside that is parsed request by request.
    Opened,
    /// HTTP, parsed request by request.
    Http,
    /// Bytes that are not inspected.
    Bytes,
}

impl Spoken {
    fn words(self) -> &'static str {
        match self {
            Spoken::Tls | Spoken::Opened | Spoken::Request => "this is tls",
            Spoken::Http => "this is http",
            Spoken::Bytes => "this is neither or came without a word from the program",
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Spoken::Tls | Spoken::Opened | Spoken::Request => "tls",
            Spoken::Http => "http",
            Spoken::Bytes => "tcp",
        }
    }
}

impl Rules {
    /// Whether programs may query the address of a name.
    pub(crate) fn judge_name(&self, host: &Host) -> Verdict {
        match self {
            Rules::Policy(policy) => policy.judge_name(host),
            Rules::Learning(policy, _) if policy.has_conditions(host) => policy.judge_name(host),
            Rules::Learning(policy, _) => learn(policy, host, host.to_string()),
            Rules::Closed(why) => closed(host.to_string(), why),
        }
    }

    /// Whether a connection to a host may be opened.
    pub(crate) fn judge_host(&self, host: &Host, port: u16) -> Verdict {
        match self {
            Rules::Policy(policy) => policy.judge_host(host, port),
            Rules::Learning(policy, _) if policy.has_conditions(host) => {
                policy.judge_host(host, port)
            }
            Rules::Learning(policy, _) => match host {
                Host::Address(address) if is_listed(policy, *address, port) => {
                    policy.judge_host(host, port)
                }
                _ => learn(policy, host, format!("{host}:{port}")),
            },
            Rules::Closed(why) => closed(format!("{host}:{port}"), why),
        }
    }

    /// Whether one request may be sent.
    pub(crate) fn judge_request(
        &self,
        host: &Host,
        port: u16,
        method: &Method,
        path: &UrlPath,
    ) -> Verdict {
        match self {
            Rules::Policy(policy) => policy.judge_request(host, port, method, path),
            Rules::Learning(policy, _) if policy.has_conditions(host) => {
                policy.judge_request(host, port, method, path)
            }
            Rules::Learning(..) | Rules::Closed(_) => self.judge_host(host, port),
        }
    }

    /// Whether a resolved address may be dialled; `own` are this machine's addresses.
    pub(crate) fn judge_address(
        &self,
        host: &Host,
        port: u16,
        address: IpAddr,
        own: &[IpAddr],
    ) -> Verdict {
        let is_own = own.contains(&address);
        let decides = match self {
            Rules::Policy(_) => true,
            Rules::Learning(policy, _) => policy.has_conditions(host),
            Rules::Closed(_) => false,
        };
        match self {
            Rules::Policy(policy) | Rules::Learning(policy, _) if decides && is_own => {
                policy.judge_own_address(host, port, address)
            }
            Rules::Policy(policy) => policy.judge_address(host, port, address),
            Rules::Learning(policy, _) if decides => policy.judge_address(host, port, address),
            Rules::Learning(policy, _) => {
                let target = format!("{host}:{port} at {address}");
                if policy.has_conditions(&Host::Address(address)) {
                    return literal_only(target);
                }
                if is_listed(policy, address, port) {
                    let verdict = policy.judge_host(&Host::Address(address), port);
                    return Verdict { target, ..verdict };
                }
                if is_own {
                    return not_public(target, "an address of this machine itself");
                }
                learn(policy, &Host::Address(address), target)
            }
            Rules::Closed(why) => closed(format!("{host}:{port} at {address}"), why),
        }
    }

    /// The denial of an alias that no allowlist can open.
    pub(crate) fn judge_alias(&self, host: &Host) -> Option<Verdict> {
        match self {
            Rules::Policy(policy) | Rules::Learning(policy, _) => policy.judge_outright(host),
            Rules::Closed(why) => Some(closed(host.to_string(), why)),
        }
    }

    /// The protocols allowed with a host at an address: those of its own entries and, for an
    /// address that is reachable only through a literal entry, those of that entry.
    pub(crate) fn protocol(
        &self,
        host: &Host,
        port: u16,
        address: Option<IpAddr>,
    ) -> Option<Protocol> {
        let policy = match self {
            Rules::Policy(policy) => policy,
            Rules::Learning(policy, _) if policy.has_conditions(host) => policy,
            Rules::Learning(..) => return Some(Protocol::Tcp),
            Rules::Closed(_) => return None,
        };
        let by_name = policy.protocol_for(host, port)?;
        match address.filter(|address| classify(*address) != AddressKind::Public) {
            Some(address) => by_name.both(policy.protocol_for(&Host::Address(address), port)?),
            None => Some(by_name),
        }
    }

    /// How a protocol would be allowed: by an entry of the policy, or by a flag if flags allow the
    /// host.
    fn how_to_speak(&self, host: &Host, port: u16, spoken: Spoken) -> String {
        let flag = match self {
            Rules::Policy(policy) => policy.flag_for(host, port),
            Rules::Learning(..) | Rules::Closed(_) => None,
        };
        let shown = match host {
            Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
            other => other.to_string(),
        };
        match (flag, spoken.remedy()) {
            (None, protocol) => format!("give the entry of {host} `protocol: {protocol}`"),
            (Some(_), "tls") => format!("pass --allow https://{shown}:{port} too"),
            (Some(_), "http") => format!("pass --allow http://{shown}:{port} too"),
            (Some(flag), protocol) => format!(
                "no flag allows other protocols: in place of {flag}, pass --policy FILE with \
                 `network_allowlist: [ {{ host: \"{host}\", ports: [{port}], protocol: {protocol} }} ]`"
            ),
        }
    }

    /// The denial of the protocol of a connection, if it is not allowed.
    pub(crate) fn judge_speech(
        &self,
        host: &Host,
        port: u16,
        address: Option<IpAddr>,
        spoken: Spoken,
    ) -> Option<Denial> {
        let Some(protocol) = self.protocol(host, port, address) else {
            return Some(nothing_in_common(host, port));
        };
        let fits = match (protocol, spoken) {
            (Protocol::Tcp, _) => true,
            (Protocol::Web, Spoken::Tls | Spoken::Opened | Spoken::Request | Spoken::Http) => true,
            (Protocol::Tls, Spoken::Tls | Spoken::Opened | Spoken::Request) => true,
            (Protocol::Http, Spoken::Http) => true,
            (Protocol::Web | Protocol::Tls | Protocol::Http, _) => false,
        };
        if !fits {
            return Some(Denial {
                control: Control::NetworkHosts.as_str().into(),
                rule: "built in: an entry allows tls or http unless it names another protocol"
                    .to_owned(),
                target: format!("{host}:{port}"),
                why: format!("only {} is allowed there, and {}", protocol.as_str(), spoken.words()),
                how_to_allow: self.how_to_speak(host, port, spoken),
            });
        }
        let is_readable = matches!(spoken, Spoken::Http | Spoken::Opened | Spoken::Request);
        let is_unread = spoken == Spoken::Tls && self.reads_requests(host, port);
        (is_unread || (!is_readable && self.judges_requests(host, port))).then(|| Denial {
            control: Control::NetworkRequests.as_str().into(),
            rule: "built in: requests that are judged must be readable".to_owned(),
            target: format!("{host}:{port}"),
            why: "the policy reads the requests to it, and these cannot be read".to_owned(),
            how_to_allow: format!(
                "start a new sandbox with this policy, or remove methods, paths and inspect from the \
                 entry of {host}, and its secrets"
            ),
        })
    }

    /// Whether only certain requests to a host are allowed.
    pub(crate) fn judges_requests(&self, host: &Host, port: u16) -> bool {
        match self {
            Rules::Policy(policy) => policy.judges_requests(host, port),
            Rules::Learning(policy, _) => {
                policy.has_conditions(host) && policy.judges_requests(host, port)
            }
            Rules::Closed(_) => false,
        }
    }

    /// Whether the gate ends TLS to a host, to read its requests.
    pub(crate) fn reads_requests(&self, host: &Host, port: u16) -> bool {
        match self {
            Rules::Policy(policy) => policy.reads_requests(host, port),
            Rules::Learning(_, Learns::Requests) => true,
            Rules::Learning(policy, Learns::Hosts) => policy.reads_requests(host, port),
            Rules::Closed(_) => false,
        }
    }

    /// The policy whose limits apply.
    pub(crate) fn policy(&self) -> Option<&Policy> {
        match self {
            Rules::Policy(policy) | Rules::Learning(policy, _) => Some(policy),
            Rules::Closed(_) => None,
        }
    }

    pub(crate) fn is_learning(&self) -> bool {
        matches!(self, Rules::Learning(..))
    }
}

fn nothing_in_common(host: &Host, port: u16) -> Denial {
    Denial {
        control: Control::NetworkHosts.as_str().into(),
        rule: "built in: every entry that opens a host must allow what is spoken".to_owned(),
        target: format!("{host}:{port}"),
        why: "the entries that open it have no protocol in common".to_owned(),
        how_to_allow: "give the entries of network_allowlist the same protocol".to_owned(),
    }
}

/// Whether every gate has the literal address with this port as an entry.
fn is_listed(policy: &Policy, address: IpAddr, port: u16) -> bool {
    let literal = HostPattern::Exact(Host::Address(address));
    policy.gates.iter().all(|gate| {
        let mut entries = gate.network.entries.iter();
        entries.any(|entry| entry.host == literal && entry.ports.contains(&port))
    })
}

fn learn(policy: &Policy, host: &Host, target: String) -> Verdict {
    if let Some(refusal) = policy.judge_outright(host) {
        return Verdict { target, ..refusal };
    }
    match host {
        Host::Address(address) if classify(*address) != AddressKind::Public => {
            not_public(target, classify(*address).as_str())
        }
        _ => Verdict {
            effect: Effect::Audit,
            control: Control::NetworkPublic,
            target,
            basis: Basis::BuiltIn { rule: "learning lets every public host pass" },
            why: "what a program uses is being learned".to_owned(),
            change: "run it with a policy".to_owned(),
        },
    }
}

fn not_public(target: String, kind: &str) -> Verdict {
    Verdict {
        effect: Effect::Deny,
        control: Control::NetworkPublic,
        target,
        basis: Basis::BuiltIn { rule: "learning reaches public addresses only" },
        why: format!("it is {kind}, and only public addresses are learned"),
        change: "allow its literal address with the port, such as --allow-host 10.0.0.7:443"
            .to_owned(),
    }
}

/// The denial of a name for an address: rules about the address would not judge its requests.
fn literal_only(target: String) -> Verdict {
    Verdict {
        effect: Effect::Deny,
        control: Control::NetworkRequests,
        target,
        basis: Basis::BuiltIn { rule: "learning keeps to the entries with conditions" },
        why: "an entry for its literal address allows only certain requests".to_owned(),
        change: "use the literal address, or leave its --allow out".to_owned(),
    }
}

fn closed(target: String, why: &str) -> Verdict {
    Verdict {
        effect: Effect::Deny,
        control: Control::NetworkDeny,
        target,
        basis: Basis::BuiltIn { rule: "a closed gate lets nothing pass" },
        why: why.to_owned(),
        change: "start a new sandbox".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn remedy_for_another_protocol_names_a_flag_if_a_flag_allows_the_host() {
        let text = "network_allowlist:\n  - { host: a.test, ports: [80], protocol: tls }\n";
        let flags = [None, Some("--allow https://a.test:80".to_owned())];
        let by_flag = Policy::parse_flags(text, &flags, Path::new("/srv")).unwrap();
        let by_text = Policy::parse_str("p", text, Path::new("/srv")).unwrap();
        let remedy = |policy: &Policy, spoken| {
            let rules = Rules::Policy(Arc::new(policy.clone()));
            let host = Host::parse("a.test").unwrap();
            rules.judge_speech(&host, 80, None, spoken).unwrap().how_to_allow
        };
        assert_eq!(remedy(&by_flag, Spoken::Http), "pass --allow http://a.test:80 too");
        assert!(remedy(&by_flag, Spoken::Bytes).contains("in place of --allow https://a.test:80"));
        let expected = "give the entry of a.test `protocol: http`";
        assert_eq!(remedy(&by_text, Spoken::Http), expected);
    }
}
