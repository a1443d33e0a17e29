//! How this wall enforces each control. Pure.
//!
//! The host's side is that of the WebAssembly wall; what differs is where the instance runs.

use std::collections::BTreeMap;

use stockade_policy::{Control, Limit};
use stockade_provider::Ability;

/// Every control that this wall knows, with the mechanism that enforces it.
pub(crate) fn abilities() -> BTreeMap<Control, Ability> {
    let mut all = stockade_wasm::reference_abilities();
    all.extend(own());
    all
}

/// What the wall enforces on every host, for documentation.
pub fn reference_abilities() -> BTreeMap<Control, Ability> {
    abilities()
}

fn own() -> [(Control, Ability); 9] {
    [
        (
            Control::Isolation,
            Ability::exact(
                "a WebAssembly instance in a virtual machine of KVM without devices; a worker \
                 process in a sandbox of the native wall owns the machine, and of the host's \
                 devices sees only /dev/kvm",
            ),
        ),
        (
            Control::SystemCalls,
            Ability::exact("by construction: there is no operating system in the machine"),
        ),
        (Control::Cleanup, Ability::exact("the memory of the worker, which ends with its sandbox")),
        (
            Control::Limit(Limit::Cpu),
            Ability::exact("the control group of the worker; the machine has one processor"),
        ),
        (
            Control::Limit(Limit::Memory),
            Ability::exact(
                "the machine's memory, which is allocated at its start; files in memory count \
                 apart, up to the same amount",
            ),
        ),
        (
            Control::Limit(Limit::OpenFiles),
            Ability::approximate(
                "counted by the host for each program: files of mounted directories, also those \
                 that it has closed",
            ),
        ),
        (
            Control::Limit(Limit::CpuTime),
            Ability::approximate("the processor time of the worker, read every 100 ms"),
        ),
        (
            Control::Limit(Limit::Timeout),
            Ability::exact("the host's clock; the machine is interrupted, or else ended"),
        ),
        (
            Control::Limit(Limit::Lifetime),
            Ability::exact("the engine's clock; the worker is ended"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use stockade_provider::Obstacle;

    use super::*;

    #[test]
    fn wall_refuses_what_the_webassembly_wall_refuses() {
        let refused = |all: BTreeMap<Control, Ability>| -> Vec<Control> {
            let is_missing = |ability: &Ability| matches!(ability, Ability::Missing(Obstacle { remedy, .. }) if !remedy.is_empty());
            all.into_iter().filter(|(_, it)| is_missing(it)).map(|(control, _)| control).collect()
        };
        let own = refused(reference_abilities());
        assert_eq!(own, refused(stockade_wasm::reference_abilities()));
        assert!(!own.is_empty());
    }
}
