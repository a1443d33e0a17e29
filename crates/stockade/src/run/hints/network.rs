//! Hints about unreachable hosts.

use stockade_policy::{AddressKind, Control, Denial, Host, classify, parse_host_port};

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
