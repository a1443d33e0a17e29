//! The command line of a guest that arranges its own listeners.

use std::net::SocketAddrV4;

use stockade_policy::{Limit, NetworkGate, Policy};
use stockade_wire::{Opening, RELAY};

/// The most ports for which the guest opens listeners at synthetic addresses.
const MOST_PORTS: usize = 16;

/// The most loopback addresses that lead to services of the host without the proxy.
const MOST_LITERALS: usize = 64;

/// What the guest arranges itself for a policy. `tools` is where it opens the tool socket.
pub fn guest_words(policy: &Policy, has_network: bool, tools: Option<&str>) -> Vec<String> {
    let files = Limit::OpenFiles;
    let files = policy.limits.value(files).unwrap_or_else(|| files.spec().min);
    let mut words = vec![format!("files={files}")];
    if has_network {
        let ports = ports(policy).iter().map(u16::to_string).collect::<Vec<_>>();
        words.push(format!("network={}", ports.join(",")));
        let literals = direct_literals(policy);
        let literals = literals.iter().map(SocketAddrV4::to_string).collect::<Vec<_>>().join(",");
        words.extend((!literals.is_empty()).then(|| format!("literals={literals}")));
    }
    words.extend(tools.map(|socket| format!("tools={socket}")));
    words
}

/// The loopback addresses at which programs reach services of the host without the proxy, in the
/// order of the policy. Programs reach further ones, and the guest's own, only through the proxy.
pub fn direct_literals(policy: &Policy) -> Vec<SocketAddrV4> {
    let is_free = |place: &SocketAddrV4| *place != RELAY && Opening::of(*place).is_none();
    policy.direct_loopback().into_iter().filter(is_free).take(MOST_LITERALS).collect()
}

/// The ports that the policy names, in its order. Programs reach further ones through the proxy.
fn ports(policy: &Policy) -> Vec<u16> {
    let of_gate = |gate: &NetworkGate| {
        let entries = gate.entries.iter().flat_map(|entry| entry.ports.clone());
        gate.ports.value.iter().copied().chain(entries).collect::<Vec<_>>()
    };
    let mut ports = Vec::new();
    for port in policy.gates.iter().flat_map(|gate| of_gate(&gate.network)) {
        if !ports.contains(&port) && ports.len() < MOST_PORTS {
            ports.push(port);
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        let policy = Policy::parse_str("test", text, Path::new("/")).unwrap();
        guest_words(&policy, true, None)
    }

    #[test]
    fn guest_listens_at_loopback_literals_for_any_bytes_and_at_none_of_its_own() {
        let text = "network_allowlist:\n\
            - { host: 127.0.0.1, ports: [5432], protocol: tcp }\n\
            - { host: 127.0.0.53, ports: [1, 53], protocol: tcp }\n\
            - { host: 127.0.0.54, ports: [3128], protocol: tcp }\n\
            - { host: 127.64.0.1, ports: [80], protocol: tcp }\n\
            - '127.0.0.1:8000'\n";
        assert_eq!(words(text)[2..], ["literals=127.0.0.1:5432"]);
        assert_eq!(words("network_allowlist: ['127.0.0.1:8000']").len(), 2);
        let many = (1..=40).map(|port| port.to_string()).collect::<Vec<_>>().join(", ");
        let entry = |last| format!("{{ host: 127.0.0.{last}, ports: [{many}], protocol: tcp }}");
        let text = format!("network_allowlist: [{}, {}]", entry(1), entry(2));
        assert_eq!(words(&text)[2].split(',').count(), MOST_LITERALS);
    }
}
