//! How exactly this wall enforces each control, given the engine and the runtime. Pure.

use std::collections::BTreeMap;

use stockade_policy::{Control, Limit};
use stockade_provider::{Ability, Obstacle, Precision};

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
        Control::Isolation => exact(isolation(facts, chosen)),
        Control::HiddenHost => exact("the image's files in a mount namespace of the container"),
        Control::ReadPaths => exact(
            "read-only bind mounts without what is mounted below them; a directory with a Unix \
             socket is refused, but one that a host process makes there during the run can be \
             connected to",
        ),
        Control::WritePaths => exact("bind mounts, with the caller's user id inside"),
        Control::MovedPaths => exact("bind mounts at the paths that the policy names"),
        Control::HidePaths => exact("an empty read-only tmpfs over each"),
        Control::Workspace => exact("a tmpfs or a bind mount at /workspace"),
        Control::WorkspaceLayer => missing(
            "an engine has no private layer over a host directory",
            "use the mode read or write, or the native wall",
        ),
        Control::HostSockets => Ability::Enforced {
            mechanism: "a search for sockets before the start, which refuses a directory that has \
                        one; a socket that a host process makes there during the run can be \
                        connected to"
                .to_owned(),
            precision: Precision::Approximate,
        },
        Control::NetworkDeny => exact("a container with network none: nothing but loopback"),
        Control::NetworkHosts | Control::NetworkPublic => exact(
            "a container with network none; the guest listens at an address of its own for each \
             allowed name and relays to the gate on the host, which decides by name and port",
        ),
        Control::NetworkBlock => {
            exact("the gate on the host, by name and again by address; nothing else leaves")
        }
        Control::Commands => missing(
            "only Landlock can tell a listed program from another file, and this wall does not use it",
            "remove command_allowlist, or use the native wall",
        ),
        Control::Environment => exact("an environment made from nothing, without the image's"),
        Control::SystemCalls if !facts.has_seccomp => missing(
            "this engine cannot install seccomp filters",
            "use an engine whose kernel has seccomp, or the native wall",
        ),
        Control::SystemCalls => exact(system_calls(chosen.runtime)),
        Control::SeccompProfile => {
            exact("a further seccomp filter in each program; the kernel keeps the stricter")
        }
        Control::CodeRules => exact("judged by the engine before anything is started"),
        Control::Cleanup => exact(
            "the engine removes the container and its volume when the stream to the guest ends; \
             the next start removes what a dead owner left",
        ),
        Control::NetworkRequests => not_built_in(
            "this version's gate decides by name and port, and does not look into requests",
            "name the host without methods and paths, or remove it",
        ),
        Control::Secrets => not_built_in(
            "this version's gate does not put secrets into requests",
            "remove secrets: nothing inside has them then",
        ),
        Control::Tools => exact(
            "a socket inside leads to the tool broker on the host, which judges each call; a \
             program can remove the socket and gains nothing by it",
        ),
    }
}

fn isolation(facts: &EngineFacts, chosen: &Chosen) -> String {
    let kernel = match (&chosen.kernel, chosen.runtime) {
        (Some(kernel), _) => kernel.to_string(),
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
        true => exact(format!("{what} of the engine, cgroup v{version}")),
        false => missing(
            &format!("this engine cannot hold the {what}"),
            "let the engine use the cgroup controller, or use the native wall",
        ),
    };
    match limit {
        Limit::Cpu => held(facts.limits.cpu, "cpu quota"),
        Limit::Memory => {
            held(facts.limits.memory && facts.limits.swap, "memory limit without swap")
        }
        Limit::Pids => match runtime {
            Runtime::Runsc => exact("RLIMIT_NPROC inside gVisor"),
            Runtime::Runc | Runtime::Crun | Runtime::Kata => held(facts.limits.pids, "pids limit"),
        },
        Limit::CpuTime => exact("the container's cpu time, watched from outside"),
        Limit::IoRate => missing(
            "an engine limits traffic only of block devices that the caller names one by one",
            "remove the limit, or use the native wall",
        ),
        Limit::Disk => Ability::Enforced {
            mechanism:
                "the size of each tmpfs that is writable inside; the memory limit holds all \
                        of them together"
                    .to_owned(),
            precision: Precision::Approximate,
        },
        Limit::Inodes => Ability::Enforced {
            mechanism: "the number of inodes of each tmpfs that is writable inside".to_owned(),
            precision: Precision::Approximate,
        },
        Limit::OpenFiles => exact("RLIMIT_NOFILE"),
        Limit::Output => exact("counted by the engine; what is beyond is dropped"),
        Limit::CancelGrace | Limit::TimeoutGrace => {
            exact("the engine's clock, from SIGTERM to the kill from outside")
        }
        Limit::Timeout | Limit::Lifetime => {
            exact("the engine's clock; everything inside is killed")
        }
        Limit::Idle => exact("a sandbox ends with its one execution and is never idle"),
        Limit::ToolCalls | Limit::ToolRate => {
            exact("counted by the tool broker on the host; what is beyond is refused")
        }
        Limit::ToolsAtOnce => exact("counted by the tool broker on the host; what is beyond waits"),
        Limit::ToolTime => {
            exact("the clock of the tool broker on the host; a call beyond it is ended")
        }
        Limit::ToolBytes | Limit::ToolDepth => {
            exact("measured by the tool broker on the host, of arguments and of results")
        }
        Limit::Connections | Limit::EgressBytes => {
            exact("counted by the gate on the host; nothing else leaves")
        }
        Limit::EgressRate => exact("paced by the gate on the host; nothing else leaves"),
    }
}

fn exact(mechanism: impl Into<String>) -> Ability {
    Ability::Enforced { mechanism: mechanism.into(), precision: Precision::Exact }
}

fn not_built_in(reason: &str, remedy: &str) -> Ability {
    Ability::NotBuiltIn(Obstacle { reason: reason.to_owned(), remedy: remedy.to_owned() })
}

fn missing(reason: &str, remedy: &str) -> Ability {
    Ability::Missing(Obstacle { reason: reason.to_owned(), remedy: remedy.to_owned() })
}

#[cfg(test)]
mod tests {
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
