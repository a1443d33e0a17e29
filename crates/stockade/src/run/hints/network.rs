//! Hints about unreachable hosts.

use std::net::{IpAddr, SocketAddrV4};

use stockade_policy::{AddressKind, Control, Denial, Host, HostPattern, classify, parse_host_port};

use super::{Advice, Asked};
use crate::shell::shell_word;

/// What programs print in a sandbox without network, in lower case.
const UNREACHABLE: [&str; 7] = [
    "could not resolve host",
    "temporary failure in name resolution",
    "unable to resolve host",
    "name or service not known",
    "network is unreachable",
    "getaddrinfo eai_again",
    "enetunreach",
];

/// The maximum number of hosts in one hint.
const MAX_HOSTS: usize = 3;

/// A hint for a sandbox without any egress.
pub(super) fn unreachable(line: &str, asked: &Asked) -> Option<String> {
    let line = line.to_lowercase();
    if asked.policy.may_reach_anything() || !UNREACHABLE.iter().any(|words| line.contains(words)) {
        return None;
    }
    Some(match asked.advice {
        Advice::Flags => "nothing leaves this sandbox; name what may be reached, with \
             --allow-host HOST, or find out with --learn FILE"
            .to_owned(),
        Advice::Clauses => "nothing leaves this sandbox; name what may be reached in \
             network_allowlist of the policy"
            .to_owned(),
    })
}

/// What programs print about a port where nothing listens, in lower case.
const NOT_LISTENING: [&str; 2] = ["connection refused", "econnrefused"];

/// A hint for a program that connects without the proxy to a loopback address that the policy lists
/// for clients of the proxy.
pub(super) fn not_direct(line: &str, asked: &Asked) -> Option<String> {
    let line = line.to_lowercase();
    if !NOT_LISTENING.iter().any(|words| line.contains(words)) {
        return None;
    }
    let direct = asked.policy.direct_loopback();
    let entries = asked.policy.gates.iter().flat_map(|gate| &gate.network.entries);
    let mut places = entries.flat_map(|entry| {
        let address = match entry.host {
            HostPattern::Exact(Host::Address(IpAddr::V4(address))) => Some(address),
            _ => None,
        };
        let address = address.filter(|address| address.is_loopback());
        address.into_iter().flat_map(|address| {
            entry.ports.iter().map(move |port| SocketAddrV4::new(address, *port))
        })
    });
    let place = places.find(|place| !direct.contains(place))?;
    let way = match asked.advice {
        Advice::Flags => format!("--allow tcp://{place} opens it to every program"),
        Advice::Clauses => {
            "`protocol: tcp` in its entry of network_allowlist opens it to every program".to_owned()
        }
    };
    Some(format!("{place} is reached through the proxy, which this program may not use; {way}"))
}

/// A hint for hosts that the policy does not name, if a flag would allow them. Omits addresses that
/// are not public: a program must not make the user copy a flag that opens this host's own
/// services.
pub(super) fn denied(denials: &[Denial], asked: &Asked) -> Option<String> {
    if asked.advice != Advice::Flags {
        return None;
    }
    let unnamed = |denial: &&Denial| {
        denial.control == Control::NetworkHosts.as_str()
            && denial.why.starts_with("network_allowlist does not name")
            && !matches!(parse_host_port(&denial.target), Ok((Host::Address(address), _))
                if classify(address) != AddressKind::Public)
    };
    let flags: Vec<String> = denials
        .iter()
        .filter(unnamed)
        .take(MAX_HOSTS)
        .map(|denial| format!("--allow-host {}", shell_word(&denial.target)))
        .collect();
    (!flags.is_empty()).then(|| format!("allow it with {}", flags.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::super::tests::asked;
    use super::*;

    #[test]
    fn hint_names_allow_host_only_without_any_egress() {
        let line = "curl: (6) Could not resolve host: files.test";
        let hint = unreachable(line, &asked("{}")).unwrap();
        assert!(hint.contains("--allow-host HOST"), "{hint}");
        assert_eq!(unreachable(line, &asked("network_allowlist: [a.test]")), None);
        assert_eq!(unreachable("all is well", &asked("{}")), None);
    }

    #[test]
    fn hint_names_tcp_for_a_loopback_literal_that_only_the_proxy_reaches() {
        let line = "ConnectionRefusedError: [Errno 111] Connection refused";
        let listed = asked("network_allowlist: ['127.0.0.1:5432']");
        let hint = not_direct(line, &listed).unwrap();
        assert!(hint.ends_with("--allow tcp://127.0.0.1:5432 opens it to every program"), "{hint}");
        assert_eq!(not_direct("no such table", &listed), None);
        let tcp = "network_allowlist: [{ host: 127.0.0.1, ports: [5432], protocol: tcp }]";
        for text in ["{}", "network_allowlist: ['10.0.0.7:5432', 'a.test']", tcp] {
            assert_eq!(not_direct(line, &asked(text)), None, "{text}");
        }
    }

    #[test]
    fn hint_has_flags_for_denied_public_hosts_only() {
        let denial = |target: &str, control: Control, why: &str| Denial {
            control: control.as_str().into(),
            rule: "r".to_owned(),
            target: target.to_owned(),
            why: why.to_owned(),
            how_to_allow: "h".to_owned(),
        };
        let denials = [
            denial("a.test:443", Control::NetworkHosts, "network_allowlist does not name a.test"),
            denial("b.test:443", Control::NetworkBlock, "network_blocklist names b.test"),
            denial("127.0.0.1:80", Control::NetworkHosts, "network_allowlist does not name it"),
            denial("[::1]:80", Control::NetworkHosts, "network_allowlist does not name it"),
        ];
        let hint = denied(&denials, &asked("{}")).unwrap();
        assert_eq!(hint, "allow it with --allow-host a.test:443");
        assert_eq!(denied(&denials[1..], &asked("{}")), None);
    }
}
