//! How exactly this wall enforces each control, given the engine and the runtime. Pure.

use std::collections::BTreeMap;

use stockade_policy::{Control, Limit};
use stockade_provider::{Ability, enforced_outside};

use crate::trial::Chosen;
use crate::{EngineFacts, EngineLimits, Runtime};

/// Every control that this wall knows, with the mechanism that enforces it.
pub(crate) fn abilities(facts: &EngineFacts, chosen: &Chosen) -> BTreeMap<Control, Ability> {
    let ability = |control| (control, ability(control, facts, chosen));
    Control::all().into_iter().map(ability).collect()
}

/// What the wall enforces with a runtime on a current engine, for documentation.
pub fn reference_abilities(runtime: Runtime) -> BTreeMap<Control, Ability> {
    let facts = EngineFacts {
        id: String::new(),
        version: "28".to_owned(),
        api: "1.48".to_owned(),
        kernel: "6.15".to_owned(),
        architecture: "x86_64".to_owned(),
        cgroups: 2,
        is_rootless: false,
        remaps_ids: false,
        has_apparmor: true,
        has_seccomp: true,
        limits: EngineLimits { memory: true, swap: true, cpu: true, pids: true },
        is_local: true,
        runtimes: BTreeMap::new(),
    };
    abilities(&facts, &Chosen { runtime, kernel: None })
}

fn ability(control: Control, facts: &EngineFacts, chosen: &Chosen) -> Ability {
    match control {
        Control::Limit(limit) => of_limit(limit, facts, chosen.runtime),
        Control::Isolation => Ability::exact(isolation(facts, chosen)),
        Control::HiddenHost => {
            Ability::exact("the image's files in a mount namespace of the container")
        }
        Control::ReadPaths => Ability::exact(
            "read-only bind mounts without what is mounted below them; a directory with a Unix \
             socket is refused, but one that a host process makes there during the run can be \
             connected to",
        ),
        Control::WritePaths => Ability::exact(
            "bind mounts, with the caller's user id inside; for root, idmapped mounts that show its \
             files as those of user 65534",
        ),
        Control::MovedPaths => Ability::exact("bind mounts at the paths that the policy names"),
        Control::HidePaths => Ability::exact("an empty read-only tmpfs over each"),
        Control::Workspace => Ability::exact("a tmpfs or a bind mount at /workspace"),
        Control::WorkspaceLayer => Ability::missing(
            "an engine has no private layer over a host directory",
            "use the mode read or write, or the native wall",
        ),
        Control::HostSockets => Ability::approximate(
            "a search for sockets before the start, which refuses a directory that has \
                        one; a socket that a host process makes there during the run can be \
                        connected to",
        ),
        Control::NetworkDeny => {
            Ability::exact("a container with network none: nothing but loopback")
        }
        Control::NetworkHosts | Control::NetworkPublic => Ability::exact(
            "a container with network none; the guest listens at an address of its own for each \
             allowed name and relays to the gate on the host, which decides by name and port",
        ),
        Control::Commands => Ability::missing(
            "only Landlock can tell a listed program from another file, and this wall does not use it",
            "remove command_allowlist, or use the native wall",
        ),
        Control::Environment => Ability::exact(
            "an environment made from nothing; of the image's, only its own program gets what is \
                 harmless",
        ),
        Control::SystemCalls if !facts.has_seccomp => Ability::missing(
            "this engine cannot install seccomp filters",
            "use an engine whose kernel has seccomp, or the native wall",
        ),
        Control::SystemCalls => Ability::exact(system_calls(chosen.runtime)),
        Control::SeccompProfile => Ability::exact(
            "a further seccomp filter in each program; the kernel keeps the stricter",
        ),
        Control::Cleanup => Ability::exact(
            "the engine removes the container and its volume when the stream to the guest ends; \
             the next start removes what a dead owner left",
        ),
        Control::Tools => Ability::exact(
            "a socket inside leads to the tool broker on the host, which judges each call; a \
             program can remove the socket and gains nothing by it",
        ),
        Control::NetworkBlock
        | Control::NetworkRequests
        | Control::Secrets
        | Control::CodeRules => enforced_outside(control),
    }
}

/// The mechanism of the isolation, with the kernel inside as far as it is known.
pub(crate) fn isolation(facts: &EngineFacts, chosen: &Chosen) -> String {
    let kernel = match (&chosen.kernel, chosen.runtime) {
        (Some(kernel), Runtime::Runc | Runtime::Crun) => format!("{kernel}, the host's"),
        (Some(kernel), Runtime::Runsc | Runtime::Kata) => kernel.to_string(),
        (None, Runtime::Runc | Runtime::Crun) => format!("Linux {}, the host's", facts.kernel),
        (None, Runtime::Runsc) => "gVisor, checked at the start".to_owned(),
        (None, Runtime::Kata) => "a kernel of its own, checked at the start".to_owned(),
    };
    let apparmor = match facts.has_apparmor {
        true => ", AppArmor",
        false => "",
    };
    format!(
        "a container of Docker {} with {} on the kernel {kernel}: no capabilities, no new \
         privileges, a read-only root, seccomp{apparmor}, never root",
        facts.version, chosen.runtime
    )
}

fn system_calls(runtime: Runtime) -> &'static str {
    match runtime {
        Runtime::Runc | Runtime::Crun | Runtime::Kata => {
            "a seccomp filter of the container, and a stricter one in each program, which denies \
             what it does not list"
        }
        Runtime::Runsc => {
            "gVisor's own system calls, and a seccomp filter in each program, which denies what it \
             does not list"
        }
    }
}

fn of_limit(limit: Limit, facts: &EngineFacts, runtime: Runtime) -> Ability {
    let version = facts.cgroups;
    let held = |has: bool, what: &str| match has {
        true => Ability::exact(format!("{what} of the engine, cgroup v{version}")),
        false => Ability::missing(
            format!("this engine cannot hold the {what}"),
            "let the engine use the cgroup controller, or use the native wall",
        ),
    };
    match limit {
        Limit::Cpu => held(facts.limits.cpu, "cpu quota"),
        Limit::Memory => {
            let ability =
                held(facts.limits.memory && facts.limits.swap, "memory limit without swap");
            match (ability, runtime) {
                (Ability::Enforced { mechanism, .. }, Runtime::Runsc) => Ability::exact(format!(
                    "{mechanism}; a program over it ends the whole sandbox, because the host sees \
                     one process"
                )),
                (ability, _) => ability,
            }
        }
        Limit::Pids => match runtime {
            Runtime::Runsc => Ability::exact("RLIMIT_NPROC inside gVisor"),
            Runtime::Runc | Runtime::Crun | Runtime::Kata => held(facts.limits.pids, "pids limit"),
        },
        Limit::CpuTime => Ability::exact("the container's cpu time, watched from outside"),
        Limit::IoRate => Ability::missing(
            "an engine limits traffic only of block devices that the caller names one by one",
            "remove the limit, or use the native wall",
        ),
        Limit::Disk => Ability::approximate(
            "the size of each tmpfs that is writable inside; the memory limit holds all \
                        of them together",
        ),
        Limit::Inodes => Ability::approximate(match runtime {
            Runtime::Runc | Runtime::Crun | Runtime::Kata => {
                "the number of inodes of each tmpfs that is writable inside"
            }
            Runtime::Runsc => "the memory limit: gVisor does not count the inodes of a tmpfs",
        }),
        Limit::OpenFiles => Ability::exact("RLIMIT_NOFILE"),
        Limit::Timeout | Limit::Lifetime => {
            Ability::exact("the engine's clock; everything inside is killed")
        }
        other => enforced_outside(Control::Limit(other)),
    }
}

#[cfg(test)]
mod tests {
    use stockade_provider::Obstacle;

    use super::*;

    fn of(facts: &EngineFacts, runtime: Runtime) -> BTreeMap<Control, Ability> {
        abilities(facts, &Chosen { runtime, kernel: None })
    }

    #[test]
    fn at_most_five_features_are_refused_and_each_has_a_reason_and_a_remedy() {
        for runtime in [Runtime::Runc, Runtime::Runsc] {
            let refused: Vec<&str> = reference_abilities(runtime)
                .into_iter()
                .filter_map(|(control, ability)| match ability {
                    Ability::Missing(Obstacle { reason, remedy }) => {
                        assert!(!reason.is_empty() && !remedy.is_empty(), "{control:?}");
                        Some(control.as_str())
                    }
                    Ability::Enforced { .. } | Ability::NotBuiltIn(_) => None,
                })
                .collect();
            assert_eq!(refused, ["max_io_bytes_per_second", "workspace_layer", "commands"]);
        }
    }

    #[test]
    fn limit_that_the_engine_cannot_hold_is_refused() {
        let facts = crate::host::example();
        let limits = EngineLimits { memory: true, swap: false, cpu: false, pids: false };
        let weak = EngineFacts { limits, has_seccomp: false, ..facts };
        for control in [
            Control::Limit(Limit::Memory),
            Control::Limit(Limit::Cpu),
            Control::Limit(Limit::Pids),
            Control::SystemCalls,
        ] {
            let ability = &of(&weak, Runtime::Runc)[&control];
            assert!(matches!(ability, Ability::Missing(_)), "{control:?}: {ability:?}");
        }
        let inside = &of(&weak, Runtime::Runsc)[&Control::Limit(Limit::Pids)];
        assert!(matches!(inside, Ability::Enforced { .. }), "{inside:?}");
    }
}
