//! How exactly this wall enforces each control, given the machine and its cgroups. Pure.

use std::collections::BTreeMap;

use stockade_cgroup::{Controller, Layout, Version};
use stockade_policy::{Control, Limit};
use stockade_provider::{Ability, Obstacle, enforced_outside};

use crate::machine::{LANDLOCK_HOLDS_SOCKETS, LANDLOCK_NEEDED, Landlock, Machine};

/// Every control that this wall knows, with the mechanism that enforces it here. `no_egress` is
/// the reason, found by a trial, why egress does not work.
pub(crate) fn abilities(
    machine: &Machine,
    layout: &Layout,
    no_egress: Option<&Obstacle>,
) -> BTreeMap<Control, Ability> {
    let mut abilities = BTreeMap::new();
    for control in Control::all() {
        let ability = match (control, no_egress) {
            (Control::NetworkHosts | Control::NetworkPublic, Some(obstacle)) => {
                Ability::Missing(obstacle.clone())
            }
            _ => ability(control, machine, layout),
        };
        abilities.insert(control, ability);
    }
    abilities
}

fn ability(control: Control, machine: &Machine, layout: &Layout) -> Ability {
    match control {
        Control::Limit(limit) => of_limit(limit, layout),
        Control::Isolation => {
            let layers = match machine.landlock {
                0 => "seccomp",
                _ => "Landlock and seccomp",
            };
            let ids = match (machine.is_root(), machine.sub_ids) {
                (true, _) => "user ids of its own",
                (false, Some(_)) => {
                    "user ids of /etc/subuid, or the caller's alone where its files are shown"
                }
                (false, None) => "the caller's user id alone",
            };
            Ability::exact(format!(
                "user, mount, pid, network, ipc, uts and cgroup namespaces, {layers}, {ids}"
            ))
        }
        Control::HiddenHost => {
            Ability::exact("a root built from nothing in a mount namespace of its own")
        }
        Control::ReadPaths => Ability::exact("read-only mounts"),
        Control::WritePaths => Ability::exact(match machine.is_root() {
            true => "mounts that show the caller's files as the sandbox's own",
            false => "writable mounts",
        }),
        Control::MovedPaths => Ability::exact("mounts at the paths that the policy names"),
        Control::HidePaths => Ability::exact("an empty read-only mount over each"),
        Control::Workspace => {
            Ability::exact("a mount at /workspace: scratch, read-only, overlay or writable")
        }
        Control::WorkspaceLayer => {
            Ability::exact("an overlay whose upper layer is the sandbox's own")
        }
        Control::HostSockets => host_sockets(machine.landlock),
        Control::NetworkDeny => Ability::exact("a network namespace with nothing but loopback"),
        Control::NetworkHosts | Control::NetworkPublic => Ability::exact(
            "a network namespace with nothing but loopback; nftables sends connections there to \
             the gate on the host, which decides by name and port",
        ),
        Control::Commands => commands(machine),
        Control::Environment => Ability::exact("an environment made from nothing"),
        Control::SystemCalls => {
            Ability::exact("a seccomp filter that denies what it does not list")
        }
        Control::SeccompProfile => {
            Ability::exact("a second seccomp filter; the kernel keeps the stricter")
        }
        Control::Cleanup => Ability::exact(match layout.has(Controller::Kill) {
            true => "the death of the pid namespace's first process, cgroup kill, and a supervisor",
            false => "the death of the pid namespace's first process, and a supervisor",
        }),
        Control::Tools => Ability::exact(
            "a socket inside that nothing there can replace leads to the tool broker on the host, which \
             judges each call",
        ),
        Control::NetworkBlock
        | Control::NetworkRequests
        | Control::Secrets
        | Control::CodeRules => enforced_outside(control),
    }
}

/// Before Landlock 9 the kernel cannot refuse a connection to a socket by its path.
fn host_sockets(landlock: u32) -> Ability {
    if landlock >= LANDLOCK_HOLDS_SOCKETS {
        return Ability::exact(format!(
            "Landlock {landlock}: only sockets that were made inside answer"
        ));
    }
    let between = match landlock {
        0 => "; two sandboxes that share the directory can connect to each other there",
        _ => ", and Landlock lets none be made there from inside",
    };
    let mechanism = format!(
        "a search for sockets before the start, which refuses a directory that has one{between}; a \
         socket that a host process makes there during the run can be connected to"
    );
    Ability::approximate(mechanism)
}

fn commands(machine: &Machine) -> Ability {
    let version = machine.landlock;
    if version > 0 {
        return Ability::exact(format!(
            "Landlock {version} over executing, of the host's programs only those listed in the \
             root, and nothing writable can be executed"
        ));
    }
    let (found, remedy) = without_landlock(machine.landlock_found);
    let reason = format!("only Landlock can tell a listed program from another file, and {found}");
    Ability::missing(reason, remedy)
}

/// Why Landlock cannot be used here, and the remedy.
pub(crate) fn without_landlock(found: Landlock) -> (String, &'static str) {
    match found {
        Landlock::Version(old) => (
            format!("this kernel has version {old} of it, and {LANDLOCK_NEEDED} is needed"),
            "use Linux 6.2 or later",
        ),
        Landlock::Missing => {
            ("this kernel has none".to_owned(), "use Linux 6.2 or later with Landlock built in")
        }
        Landlock::SwitchedOff => (
            "it is switched off in this kernel".to_owned(),
            "start the kernel with `landlock` in lsm=, such as lsm=landlock,lockdown,yama",
        ),
        Landlock::Refused(_) => (
            "a system-call filter refuses it".to_owned(),
            "let the filter allow landlock_create_ruleset, landlock_add_rule and \
             landlock_restrict_self; of a container, `--security-opt seccomp=unconfined` does",
        ),
    }
}

pub(crate) fn of_limit(limit: Limit, layout: &Layout) -> Ability {
    match limit {
        Limit::Cpu => {
            held(layout, Controller::Cpu, "cgroup cpu quota", "pausing everything inside in turns")
        }
        Limit::Memory => held(
            layout,
            Controller::Memory,
            "cgroup memory limit without swap",
            "a watchdog that samples memory, and rlimits",
        ),
        Limit::Pids => match layout.has(Controller::Pids) {
            true => Ability::exact(named(layout, Controller::Pids, "cgroup pids limit")),
            false => Ability::exact("RLIMIT_NPROC in a user namespace of its own"),
        },
        Limit::CpuTime => held(
            layout,
            Controller::CpuTime,
            "cgroup cpu time, watched from outside",
            "cpu time of the process tree, watched from outside",
        ),
        Limit::IoRate => io_rate(layout),
        Limit::Disk => {
            Ability::exact("the size of the one tmpfs that everything writable inside is on")
        }
        Limit::Inodes => Ability::exact("the number of inodes of that tmpfs"),
        Limit::OpenFiles => Ability::exact("RLIMIT_NOFILE"),
        Limit::Timeout | Limit::Lifetime => {
            Ability::exact("the engine's clock; everything inside is killed from outside")
        }
        other => enforced_outside(Control::Limit(other)),
    }
}

/// Both cgroup versions limit reads and direct writes; only v2 limits writes through the page
/// cache.
fn io_rate(layout: &Layout) -> Ability {
    let version = version_of(layout, Controller::Io);
    match version {
        Some(Version::V2) => Ability::exact("cgroup v2 io.max"),
        Some(Version::V1) => Ability::approximate(
            "cgroup v1 blkio throttling; writes through the page cache are not counted",
        ),
        None => match layout.obstacles().get(&Controller::Io) {
            Some(obstacle) => Ability::Missing(obstacle.clone()),
            None => Ability::missing("no cgroup controls block devices here", "remove the limit"),
        },
    }
}

/// Exact with a cgroup, otherwise approximate by another mechanism.
fn held(layout: &Layout, controller: Controller, by_cgroup: &str, otherwise: &str) -> Ability {
    match layout.has(controller) {
        true => Ability::exact(named(layout, controller, by_cgroup)),
        false => Ability::approximate(otherwise),
    }
}

/// The mechanism, followed by the cgroup version that provides it.
fn named(layout: &Layout, controller: Controller, what: &str) -> String {
    match version_of(layout, controller) {
        Some(Version::V1) => what.replacen("cgroup", "cgroup v1", 1),
        Some(Version::V2) => what.replacen("cgroup", "cgroup v2", 1),
        None => what.to_owned(),
    }
}

fn version_of(layout: &Layout, controller: Controller) -> Option<Version> {
    let with = layout.hierarchies().iter().find(|it| it.controllers.contains(&controller));
    with.map(|hierarchy| hierarchy.version)
}

#[cfg(test)]
#[path = "abilities_tests.rs"]
mod tests;
