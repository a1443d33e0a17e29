//! Comparing the reachable hosts and requests of two policies.

use crate::control::Control;
use crate::host::Host;
use crate::pattern::{BlockPattern, HostPattern};
use crate::policy::{Inspect, NetworkDefault, NetworkEntry, NetworkGate, Policy, Protocol};
use crate::source::Sourced;

use super::{Widening, add};

pub(super) fn compare(base: &Policy, new: &Policy, found: &mut Vec<Widening>) {
    let silent =
        |gate: &NetworkGate| gate.entries.is_empty() && gate.default.value == NetworkDefault::Deny;
    if new.gates.iter().any(|gate| silent(&gate.network)) {
        return;
    }
    for old in &base.gates {
        // A host must pass every gate of the new policy, so one sufficiently narrow gate is enough;
        // otherwise the gate with the fewest differences is reported.
        let differences = new.gates.iter().map(|gate| wider(&old.network, &gate.network));
        let fewest = differences.min_by_key(Vec::len).unwrap_or_default();
        for (control, allows) in fewest {
            add(found, control, allows);
        }
    }
    for blocked in &base.network_blocklist {
        let covered = new.network_blocklist.iter().any(|own| blocks(own, blocked));
        if !covered && may_reach(new, &blocked.value) {
            let allows = format!("{}, which was blocked", blocked.value);
            add(found, Control::NetworkBlock, allows);
        }
    }
}

/// Whether a policy lets anything through that a blocklist entry would stop.
fn may_reach(new: &Policy, blocked: &BlockPattern) -> bool {
    let pattern = match blocked {
        // An allowed name may resolve to any address.
        BlockPattern::Range(_) | BlockPattern::Host(HostPattern::Exact(Host::Address(_))) => {
            return true;
        }
        BlockPattern::Host(pattern) => pattern,
    };
    new.gates.iter().all(|gate| {
        let named =
            gate.network.entries.iter().any(|entry| entry.host.intersect(pattern).is_some());
        named || gate.network.default.value == NetworkDefault::Allow
    })
}

fn blocks(own: &Sourced<BlockPattern>, other: &Sourced<BlockPattern>) -> bool {
    match (&own.value, &other.value) {
        (BlockPattern::Host(own), BlockPattern::Host(other)) => own.covers(other),
        (BlockPattern::Range(own), BlockPattern::Range(other)) => own.covers(other),
        (own, other) => own == other,
    }
}

fn wider(old: &NetworkGate, new: &NetworkGate) -> Vec<(Control, String)> {
    let mut found = Vec::new();
    // A listed name may resolve to a listed private address; a name that only the default allows
    // may not.
    let has_literal = new.entries.iter().any(|entry| {
        let literal = matches!(entry.host, HostPattern::Exact(Host::Address(_)));
        literal && !entry.inspects_requests()
    });
    for entry in &new.entries {
        for region in regions(&entry.host, old) {
            let overruled = new.entries.iter().any(|other| {
                other.host.specificity() > entry.host.specificity() && other.host.covers(&region)
            });
            let newly_named = !old.entries.iter().any(|other| other.host.covers(&region));
            if !overruled && (!covered(old, &region, entry) || (newly_named && has_literal)) {
                found.push((Control::NetworkHosts, describe(&region, entry)));
            }
        }
    }
    if new.default.value == NetworkDefault::Deny {
        return found;
    }
    let closed = old.default.value == NetworkDefault::Deny;
    if closed || !new.ports.value.iter().all(|port| old.ports.value.contains(port)) {
        let allows = format!("any public host on ports {:?}", new.ports.value);
        found.push((Control::NetworkPublic, allows));
        return found;
    }
    for entry in &old.entries {
        let named = new.entries.iter().any(|own| own.host.covers(&entry.host));
        let open = NetworkEntry {
            host: entry.host.clone(),
            ports: new.ports.value.clone(),
            protocol: Protocol::Web,
            methods: None,
            paths: None,
            inspect: Inspect::Pass,
            basis: new.default.basis.clone(),
        };
        if !named && !covered(old, &entry.host, &open) {
            found.push((Control::NetworkPublic, describe(&entry.host, &open)));
        }
    }
    found
}

/// The parts of a pattern for which the old gate gives a single answer.
fn regions(host: &HostPattern, old: &NetworkGate) -> Vec<HostPattern> {
    let mut regions = vec![host.clone()];
    for entry in &old.entries {
        if host.covers(&entry.host) && !regions.contains(&entry.host) {
            regions.push(entry.host.clone());
        }
    }
    regions
}

/// Whether the old gate allows everything that an entry allows within a region.
fn covered(old: &NetworkGate, region: &HostPattern, entry: &NetworkEntry) -> bool {
    let naming: Vec<&NetworkEntry> =
        old.entries.iter().filter(|candidate| candidate.host.covers(region)).collect();
    let best = naming.iter().map(|candidate| candidate.host.specificity()).max();
    let Some(best) = best else {
        let names = !matches!(region, HostPattern::Exact(Host::Address(_)));
        let ports = entry.ports.iter().all(|port| old.ports.value.contains(port));
        let open = old.default.value == NetworkDefault::Allow;
        return open && names && ports && entry.protocol != Protocol::Tcp;
    };
    let deciding: Vec<&NetworkEntry> =
        naming.into_iter().filter(|candidate| candidate.host.specificity() == best).collect();
    let allows = |candidate: &NetworkEntry, port: &u16| {
        candidate.ports.contains(port)
            && speaks(candidate.protocol, entry.protocol)
            && methods_cover(candidate, entry)
            && paths_cover(candidate, entry)
    };
    entry.ports.iter().all(|port| deciding.iter().any(|candidate| allows(candidate, port)))
}

fn speaks(old: Protocol, new: Protocol) -> bool {
    old == new || old == Protocol::Tcp || (old == Protocol::Web && new != Protocol::Tcp)
}

fn methods_cover(old: &NetworkEntry, new: &NetworkEntry) -> bool {
    match (&old.methods, &new.methods) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(old), Some(new)) => new.iter().all(|method| old.contains(method)),
    }
}

fn paths_cover(old: &NetworkEntry, new: &NetworkEntry) -> bool {
    match (&old.paths, &new.paths) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(old), Some(new)) => {
            new.iter().all(|path| old.iter().any(|pattern| pattern.covers(path)))
        }
    }
}

fn describe(region: &HostPattern, entry: &NetworkEntry) -> String {
    let ports: Vec<String> = entry.ports.iter().map(u16::to_string).collect();
    let mut text = format!("{region} on port {}", ports.join(", "));
    if let Some(methods) = &entry.methods {
        let names: Vec<&str> = methods.iter().map(crate::request::Method::as_str).collect();
        text.push_str(&format!(", {}", names.join(" ")));
    }
    if let Some(paths) = &entry.paths {
        let names: Vec<String> = paths.iter().map(ToString::to_string).collect();
        text.push_str(&format!(" {}", names.join(" ")));
    }
    text
}
