//! How exactly the reduced wall enforces each control. Pure.

use std::collections::BTreeMap;

use stockade_cgroup::{Controller, Layout};
use stockade_policy::{Control, Limit};
use stockade_provider::{Ability, Obstacle};
use stockade_seccomp::Ids;

use crate::abilities::{of_limit, without_landlock};
use crate::machine::Machine;

/// The first Landlock version that confines signals.
const LANDLOCK_HOLDS_SIGNALS: u32 = 6;

/// Why this wall cannot be built here at all.
pub(super) fn unusable(machine: &Machine, ids: Ids) -> Option<Obstacle> {
    let obstacle =
        |reason: String, remedy: &str| Some(Obstacle { reason, remedy: remedy.to_owned() });
    match (machine.landlock, ids) {
        (0, _) => {
            let (found, remedy) = without_landlock(machine.landlock_found);
            obstacle(
                format!("only Landlock can hold files without namespaces, and {found}"),
                remedy,
            )
        }
        (version, Ids::Callers) if version < LANDLOCK_HOLDS_SIGNALS => obstacle(
            format!(
                "the sandbox would have the caller's user id, and only Landlock \
                 {LANDLOCK_HOLDS_SIGNALS} keeps it from signalling the caller's other processes; \
                 this kernel has Landlock {version}"
            ),
            "use Linux 6.12 or later, or run as root, which gives a sandbox a user id of its own",
        ),
        _ => None,
    }
}

/// Every control with the mechanism that enforces it here.
pub(crate) fn abilities(
    machine: &Machine,
    layout: &Layout,
    ids: Ids,
) -> BTreeMap<Control, Ability> {
    let ability = |control| (control, ability(control, machine, layout, ids));
    Control::all().into_iter().map(ability).collect()
}

fn ability(control: Control, machine: &Machine, layout: &Layout, ids: Ids) -> Ability {
    match control {
        Control::Limit(limit) => limited(limit, layout, ids),
        Control::Isolation => Ability::exact(format!(
            "no namespaces: Landlock {}, seccomp, {}",
            machine.landlock,
            match ids {
                Ids::Own => "a user id of its own",
                Ids::Callers => "the caller's user id",
            }
        )),
        Control::HiddenHost => Ability::exact(
            "Landlock: other files cannot be opened and other directories not listed; that a name \
             exists, its owner, size and times and where a link leads can be read by a program \
             that guesses it",
        ),
        Control::ReadPaths => Ability::exact(match ids {
            Ids::Own => "Landlock rules for reading, and the rights that files give to others",
            Ids::Callers => "Landlock rules for reading, and seccomp over owners and modes",
        }),
        Control::WritePaths => Ability::exact("Landlock rules for writing"),
        Control::MovedPaths => Ability::missing(
            "without a mount namespace a host path is at its own place or nowhere",
            "write the same path for host and guest, or use a host with namespaces",
        ),
        Control::HidePaths => Ability::missing(
            "Landlock takes nothing away again below a directory that it allows",
            "name what shall be seen instead of the whole, or use a host with namespaces",
        ),
        Control::Workspace => Ability::exact(
            "the working directory is a directory of its own in the host's temporary directory, or \
             the host's directory itself under its own name",
        ),
        Control::WorkspaceLayer => Ability::missing(
            "without a mount namespace there is no layer to keep changes in",
            "use mode read or write, or a host with namespaces",
        ),
        Control::HostSockets => Ability::exact("seccomp refuses every socket but pairs"),
        Control::NetworkDeny | Control::NetworkBlock => Ability::exact(
            "nothing leaves: seccomp refuses every socket, and Landlock every TCP port",
        ),
        Control::Commands => Ability::missing(
            "the host's other programs can be read, and the loader starts whatever can be read",
            "remove command_allowlist, or use a host with namespaces",
        ),
        Control::Environment => Ability::exact("an environment made from nothing"),
        Control::SystemCalls => {
            Ability::exact("two seccomp filters: what is not listed, and what would reach others")
        }
        Control::SeccompProfile => {
            Ability::exact("a further seccomp filter; the kernel keeps the stricter")
        }
        Control::CodeRules => Ability::exact("judged by the engine before anything is started"),
        Control::Cleanup => Ability::exact(match (layout.has(Controller::Kill), ids) {
            (true, _) => {
                "one kill of every process that the sandbox could reach, cgroup kill, and a supervisor"
            }
            (false, Ids::Own) => {
                "one kill of every process with the sandbox's user id, and a supervisor"
            }
            (false, Ids::Callers) => {
                "one kill of every process in its Landlock domain, and a supervisor"
            }
        }),
        Control::NetworkHosts
        | Control::NetworkPublic
        | Control::NetworkRequests
        | Control::Secrets => Ability::missing(
            "this wall has no network of its own to let connections out of",
            "remove the clause, or use a host with namespaces",
        ),
        Control::Tools => Ability::missing(
            "without a mount namespace a program could replace the socket that tools are called by",
            "remove tool_allowlist and pass results in as files, or use a host with namespaces",
        ),
    }
}

fn limited(limit: Limit, layout: &Layout, ids: Ids) -> Ability {
    match limit {
        Limit::Pids if !layout.has(Controller::Pids) => match ids {
            Ids::Own => Ability::exact("RLIMIT_NPROC of a user id of its own"),
            Ids::Callers => Ability::approximate("a watchdog that counts the process tree"),
        },
        Limit::Disk => Ability::approximate(
            "RLIMIT_FSIZE for each file, and a watchdog that adds up the scratch directory",
        ),
        Limit::Inodes => Ability::approximate("a watchdog that counts the scratch directory"),
        Limit::Connections | Limit::EgressBytes | Limit::EgressRate => {
            Ability::exact("nothing leaves: seccomp refuses every socket")
        }
        Limit::ToolCalls
        | Limit::ToolTime
        | Limit::ToolBytes
        | Limit::ToolDepth
        | Limit::ToolRate
        | Limit::ToolsAtOnce => Ability::exact("no tool can be called"),
        Limit::ForwardedPorts => Ability::exact("no port can be forwarded"),
        other => of_limit(other, layout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(landlock: u32) -> Machine {
        Machine { landlock, ..Machine::look() }
    }

    #[test]
    fn reduced_wall_is_offered_only_if_its_mechanisms_work() {
        let usable = |landlock, ids| unusable(&machine(landlock), ids).is_none();
        assert_eq!([0, 3, 5, 6].map(|it| usable(it, Ids::Own)), [false, true, true, true]);
        assert_eq!([0, 3, 5, 6].map(|it| usable(it, Ids::Callers)), [false, false, false, true]);
    }
}
