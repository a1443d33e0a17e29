//! The command line of a guest that arranges its own listeners.

use stockade_policy::{Limit, NetworkGate, Policy};

/// The most ports for which the guest opens listeners at synthetic addresses.
const MOST_PORTS: usize = 16;

/// What the guest arranges itself for a policy. `tools` is where it opens the tool socket.
pub fn guest_words(policy: &Policy, has_network: bool, tools: Option<&str>) -> Vec<String> {
    let files = Limit::OpenFiles;
    let files = policy.limits.value(files).unwrap_or_else(|| files.spec().min);
    let mut words = vec![format!("files={files}")];
    if has_network {
        let ports = ports(policy).iter().map(u16::to_string).collect::<Vec<_>>();
        words.push(format!("network={}", ports.join(",")));
    }
    words.extend(tools.map(|socket| format!("tools={socket}")));
    words
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
