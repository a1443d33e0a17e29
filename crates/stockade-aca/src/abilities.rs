//! How exactly this wall enforces each control. Pure.
//!
//! Three parties hold controls: the service (unverified, because this version has not been tried
//! against the real one), the runner inside with the means of the kernel, and this host.

use std::collections::BTreeMap;

use stockade_policy::{Control, Limit};
use stockade_provider::{Ability, enforced_outside};

/// Every control that this wall knows, with the mechanism that enforces it.
pub(crate) fn abilities() -> BTreeMap<Control, Ability> {
    Control::all().into_iter().map(|control| (control, ability(control))).collect()
}

/// What the wall enforces, for documentation.
pub fn reference_abilities() -> BTreeMap<Control, Ability> {
    abilities()
}

fn ability(control: Control) -> Ability {
    const HOST_FILES: &str = "copy files with `stockade cp`, or use another wall";
    let no_host_files =
        || Ability::missing("a sandbox of the service sees no files of this host", HOST_FILES);
    match control {
        Control::Limit(limit) => of_limit(limit),
        Control::Isolation => Ability::unverified("the service's virtual machine"),
        Control::HiddenHost => Ability::exact("another machine: no file of this host is there"),
        Control::ReadPaths
        | Control::WritePaths
        | Control::MovedPaths
        | Control::WorkspaceLayer
        | Control::HostSockets => no_host_files(),
        Control::HidePaths => Ability::missing(
            "this wall mounts nothing over paths of the disk image",
            "remove filesystem.hide, or use another wall",
        ),
        Control::Workspace => Ability::exact(
            "a directory of the sandbox's disk; a directory of this host is refused at the start",
        ),
        Control::NetworkDeny => Ability::unverified(
            "the service's egress policy, sent with the create call and compared before the first \
             program: Deny, with full inspection",
        ),
        Control::NetworkHosts => Ability::unverified(
            "an Allow rule of the service's egress policy for each host; entries with ports, \
             protocols or addresses are refused at the start",
        ),
        Control::NetworkPublic => Ability::unverified(
            "the default action Allow of the service's egress policy, with full inspection",
        ),
        Control::NetworkBlock => Ability::missing(
            "the service documents neither the order of its rules nor rules for addresses",
            "remove network_blocklist, or use another wall",
        ),
        Control::NetworkRequests | Control::Secrets => Ability::not_built_in(
            "requests of this wall do not pass the gate on this host",
            "remove the clause, or use another wall",
        ),
        Control::Commands => Ability::missing(
            "only Landlock can tell a listed program from another file, and this wall does not use it",
            "remove command_allowlist, or use the native wall",
        ),
        Control::Tools => Ability::exact(
            "the tool broker on this host judges each call, which travels as files that the host \
             fetches",
        ),
        Control::Environment => Ability::exact(
            "an environment made from nothing, with the service's own proxy and certificates",
        ),
        Control::SystemCalls => Ability::exact(
            "a seccomp filter that the runner inside installs in each program, which denies what \
             it does not list",
        ),
        Control::SeccompProfile => Ability::exact(
            "a further seccomp filter in each program; the kernel keeps the stricter",
        ),
        Control::CodeRules => enforced_outside(control),
        Control::Cleanup => Ability::unverified(
            "the sandbox is deleted; the next start deletes what a dead owner left, and the service \
             deletes what nothing uses",
        ),
    }
}

fn of_limit(limit: Limit) -> Ability {
    match limit {
        Limit::Cpu => Ability::unverified("the processors of the service's virtual machine"),
        Limit::Memory => Ability::unverified("the memory of the service's virtual machine"),
        Limit::Pids => Ability::exact("RLIMIT_NPROC of the programs' user inside"),
        Limit::OpenFiles => Ability::exact("RLIMIT_NOFILE"),
        Limit::Timeout => Ability::exact(
            "the runner's clock inside, which kills the programs, and the engine's here, which \
             deletes the sandbox if that is not confirmed",
        ),
        Limit::CpuTime => Ability::approximate("RLIMIT_CPU of each process, in whole seconds"),
        Limit::Disk | Limit::Inodes => Ability::approximate(
            "the runner inside counts the files of programs once a second and ends the program",
        ),
        Limit::Connections | Limit::EgressBytes => Ability::approximate(
            "the runner inside reads the kernel's counts once a second and ends the program",
        ),
        Limit::EgressRate => Ability::missing(
            "the service does not pace connections",
            "remove the limit, or use another wall",
        ),
        Limit::IoRate => Ability::missing(
            "the service does not limit traffic with its disks",
            "remove the limit, or use the native wall",
        ),
        Limit::Lifetime => Ability::exact("the engine's clock; the sandbox is deleted"),
        other => enforced_outside(Control::Limit(other)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use stockade_policy::{Isolation, Policy};
    use stockade_provider::{Finding, Precision, ProgramKinds, ProviderName, WallFacts, plan};

    use super::*;

    fn facts() -> WallFacts {
        WallFacts {
            provider: ProviderName::new("aca"),
            isolation: Isolation::Vm,
            unusable: None,
            programs: ProgramKinds { contexts: false, interrupts: false, ..ProgramKinds::ALL },
            abilities: abilities(),
        }
    }

    fn refused(text: &str) -> Vec<&'static str> {
        let policy = Policy::parse_str("p", text, Path::new("/srv")).unwrap();
        let Err(report) = plan(&policy, &facts()) else { return Vec::new() };
        let refused = report.controls.iter().filter_map(|finding| match finding {
            Finding::Refused(refused) => Some(refused.requirement.control.as_str()),
            Finding::Enforced(_) => None,
        });
        refused.collect()
    }

    #[test]
    fn default_policy_and_one_with_hosts_are_planned_with_unverified_controls() {
        let text =
            "{isolation: vm, network_allowlist: [packages.example.net], tool_allowlist: [fetch]}";
        let policy = Policy::parse_str("p", text, Path::new("/srv")).unwrap();
        let plan = plan(&policy, &facts()).unwrap();
        let unverified: Vec<&str> = plan
            .controls
            .iter()
            .filter(|held| held.precision == Precision::Unverified)
            .map(|held| held.requirement.control.as_str())
            .collect();
        let expected =
            ["isolation", "max_cpu", "max_memory_mb", "network_deny", "network_hosts", "cleanup"];
        assert_eq!(unverified, expected);
    }

    #[test]
    fn clause_that_nothing_holds_is_refused_by_name() {
        for (text, control) in [
            ("network_blocklist: [evil.org]", "network_block"),
            ("command_allowlist: [ls]", "commands"),
            ("limits: {max_io_bytes_per_second: 10000000}", "max_io_bytes_per_second"),
            ("limits: {max_egress_bytes_per_second: 10000000}", "max_egress_bytes_per_second"),
            ("filesystem: {read: [/usr/share]}", "read_paths"),
            ("network_allowlist: [{host: a.org, methods: [GET]}]", "network_requests"),
        ] {
            assert_eq!(refused(text), [control], "{text}");
        }
        let exact = refused("limits: {exact: true}");
        assert!(exact.contains(&"max_memory_mb") && exact.contains(&"max_disk_mb"), "{exact:?}");
        assert_eq!(refused("{}"), [""; 0]);
    }
}
