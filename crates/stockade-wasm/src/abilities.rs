//! How this wall enforces each control. Pure.

use std::collections::BTreeMap;

use stockade_policy::{Control, Limit};
use stockade_provider::{Ability, enforced_outside};

/// Every control that this wall knows, with the mechanism that enforces it.
pub(crate) fn abilities() -> BTreeMap<Control, Ability> {
    Control::all().into_iter().map(|control| (control, ability(control))).collect()
}

/// What the wall enforces on every host, for documentation.
pub fn reference_abilities() -> BTreeMap<Control, Ability> {
    abilities()
}

fn ability(control: Control) -> Ability {
    match control {
        Control::Limit(limit) => of_limit(limit),
        Control::Isolation => Ability::exact(
            "a WebAssembly instance without system calls, in wasmtime; it reaches only the \
             functions of the host that this wall lists",
        ),
        Control::HiddenHost => Ability::exact(
            "by construction: the files are a tree in memory, and no function leads to others",
        ),
        Control::ReadPaths | Control::WritePaths | Control::MovedPaths => Ability::exact(
            "directories opened by the host; every path is resolved below them, without leaving \
             by a link",
        ),
        Control::HidePaths => Ability::missing(
            "this wall shows whole directories",
            "mount only what may be seen, or use the native wall",
        ),
        Control::Workspace => Ability::exact("a directory in memory, or one opened by the host"),
        Control::WorkspaceLayer => Ability::missing(
            "this wall has no private layer over a host directory",
            "use the mode read or write, or the native wall",
        ),
        Control::HostSockets => Ability::exact("by construction: there are no sockets inside"),
        Control::NetworkDeny => Ability::exact("by construction: there are no sockets inside"),
        Control::NetworkHosts | Control::NetworkPublic => Ability::exact(
            "the functions http_get and http_request, which the host performs through the gate, \
             by name",
        ),
        Control::NetworkRequests => Ability::exact(
            "judged by the gate for each request of http_get and http_request: the wall makes it and \
             describes it to the gate",
        ),
        Control::Commands => Ability::missing(
            "there are no commands behind this wall",
            "remove command_allowlist, or use the native wall",
        ),
        Control::Environment => Ability::exact(
            "by construction: an empty environment and the variables of the policy and the caller",
        ),
        Control::SystemCalls => Ability::exact("by construction: an instance makes none"),
        Control::SeccompProfile => Ability::missing(
            "an instance makes no system calls that a profile could filter",
            "remove seccomp, or use the native wall",
        ),
        Control::Cleanup => Ability::exact(
            "the memory of this process; it ends with the instance, and with the process",
        ),
        Control::Tools => Ability::exact(
            "a function of the host leads to the tool broker, which judges each call",
        ),
        Control::Secrets => Ability::not_built_in(
            "the requests of this wall leave the sandbox encrypted, so the gate cannot change them",
            "remove secrets, or use the native wall or Docker",
        ),
        Control::NetworkBlock | Control::CodeRules => enforced_outside(control),
    }
}

fn of_limit(limit: Limit) -> Ability {
    match limit {
        Limit::Cpu => Ability::approximate(
            "one thread for each program, which rests at a tick of 10 ms when the sandbox is ahead \
             of its share",
        ),
        Limit::Memory => Ability::exact(
            "the engine asks before a linear memory grows; memory of all instances and content of \
             all files count",
        ),
        Limit::Pids => Ability::exact("by construction: no processes and no threads inside"),
        Limit::Disk | Limit::Inodes => Ability::exact("counted by the file system in memory"),
        Limit::OpenFiles => Ability::exact("counted by the host for each program"),
        Limit::CpuTime => Ability::exact("the time of the program's thread, read every 10 ms"),
        Limit::IoRate => Ability::missing(
            "this wall does not pace reads and writes of mounted directories",
            "remove the limit, or use the native wall",
        ),
        Limit::Timeout => {
            Ability::exact("the host's clock; a running program is interrupted every 10 ms")
        }
        Limit::Lifetime => Ability::exact("the engine's clock; every instance is dropped"),
        Limit::CancelGrace | Limit::TimeoutGrace => {
            Ability::exact("by construction: there are no signals to wait for; it is ended at once")
        }
        other => enforced_outside(Control::Limit(other)),
    }
}

#[cfg(test)]
mod tests {
    use stockade_provider::Obstacle;

    use super::*;

    #[test]
    fn only_what_means_nothing_here_or_is_not_built_is_refused_and_each_has_a_remedy() {
        let refused: Vec<&str> = reference_abilities()
            .into_iter()
            .filter_map(|(control, ability)| match ability {
                Ability::Missing(Obstacle { reason, remedy }) => {
                    assert!(!reason.is_empty() && !remedy.is_empty(), "{control:?}");
                    Some(control.as_str())
                }
                Ability::Enforced { .. } | Ability::NotBuiltIn(_) => None,
            })
            .collect();
        let expected = [
            "max_io_bytes_per_second",
            "hide_paths",
            "workspace_layer",
            "commands",
            "seccomp_profile",
        ];
        assert_eq!(refused, expected);
    }

    #[test]
    fn what_has_no_meaning_inside_is_satisfied_by_construction() {
        let abilities = reference_abilities();
        for control in [
            Control::Limit(Limit::Pids),
            Control::SystemCalls,
            Control::HostSockets,
            Control::NetworkDeny,
            Control::Environment,
        ] {
            match &abilities[&control] {
                Ability::Enforced { mechanism, .. } => {
                    assert!(mechanism.starts_with("by construction"), "{control:?}: {mechanism}");
                }
                other => panic!("{control:?}: {other:?}"),
            }
        }
    }
}
