//! How exactly this wall enforces each control. Pure.

use std::collections::BTreeMap;

use stockade_policy::{Control, Limit};
use stockade_provider::{Ability, enforced_outside};

use crate::Accelerator;

/// Every control that this wall knows, with the mechanism that enforces it.
pub(crate) fn abilities(accelerator: Accelerator, kernel: &str) -> BTreeMap<Control, Ability> {
    let ability = |control| (control, ability(control, accelerator, kernel));
    Control::all().into_iter().map(ability).collect()
}

/// What the wall enforces, for documentation.
pub fn reference_abilities(accelerator: Accelerator) -> BTreeMap<Control, Ability> {
    abilities(accelerator, "")
}

fn ability(control: Control, accelerator: Accelerator, kernel: &str) -> Ability {
    match control {
        Control::Limit(limit) => of_limit(limit),
        Control::Isolation => Ability::exact(isolation(accelerator, kernel)),
        Control::HiddenHost => {
            Ability::exact("a machine of its own, which has only the image and copies of files")
        }
        Control::ReadPaths => {
            Ability::exact("copies in read-only file systems, made before the start")
        }
        Control::WritePaths => Ability::exact(
            "copies of directories; what programs change there is copied to the host when a program \
             ends, and is the caller's",
        ),
        Control::MovedPaths => Ability::exact("copies at the paths that the policy names"),
        Control::HidePaths => Ability::exact("an empty read-only tmpfs over each"),
        Control::Workspace => Ability::exact("a tmpfs at /workspace, with a copy if one is asked"),
        Control::WorkspaceLayer => Ability::exact("changes are made to a copy"),
        Control::HostSockets => Ability::exact("copies contain no sockets"),
        Control::NetworkDeny => {
            Ability::exact("a machine without any network device: nothing but loopback")
        }
        Control::NetworkHosts | Control::NetworkPublic => Ability::exact(
            "a machine without any network device; the guest listens at an address of its own for \
             each allowed name and relays to the gate on the host, which decides by name and port",
        ),
        Control::Commands => Ability::missing(
            "only Landlock can tell a listed program from another file, and this wall does not use it",
            "remove command_allowlist, or use the native wall",
        ),
        Control::Environment => Ability::exact("an environment made from nothing"),
        Control::SystemCalls => Ability::exact(
            "a kernel of its own, and a seccomp filter in each program, which denies what it does \
             not list",
        ),
        Control::SeccompProfile => Ability::exact(
            "a further seccomp filter in each program; the kernel keeps the stricter",
        ),
        Control::Cleanup => Ability::exact(
            "QEMU is a program in a sandbox of the native wall, which removes everything of it \
             when this process ends",
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

fn isolation(accelerator: Accelerator, kernel: &str) -> String {
    let kernel = match kernel {
        "" => String::new(),
        version => format!(" {version}"),
    };
    let how = match accelerator {
        Accelerator::Kvm => "kvm: the processor separates it from the host",
        Accelerator::Tcg => {
            "tcg: QEMU's translator, which the host's kernel separates from the host"
        }
    };
    format!(
        "a virtual machine with a kernel of its own{kernel}, by {how}; QEMU runs without rights in \
         a sandbox of the native wall"
    )
}

fn of_limit(limit: Limit) -> Ability {
    match limit {
        Limit::Cpu => Ability::approximate(
            "whole processors of the machine from outside, and the share of them by a cgroup inside",
        ),
        Limit::Memory => Ability::exact(
            "a cgroup inside; from outside the machine's own memory, which is larger by what its \
             kernel needs",
        ),
        Limit::Pids => Ability::exact("a cgroup inside"),
        Limit::CpuTime => {
            Ability::exact("QEMU's processor time since the boot, watched from outside")
        }
        Limit::IoRate => Ability::missing(
            "a machine's only block devices are its read-only image and copies",
            "remove the limit, or use the native wall",
        ),
        Limit::Disk => Ability::approximate(
            "the size of each tmpfs that is writable inside; the memory limit holds all of them \
             together",
        ),
        Limit::Inodes => {
            Ability::approximate("the number of inodes of each tmpfs that is writable inside")
        }
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

    #[test]
    fn only_named_controls_are_refused_and_each_has_a_reason_and_a_remedy() {
        let refused: Vec<&str> = reference_abilities(Accelerator::Tcg)
            .into_iter()
            .filter_map(|(control, ability)| match ability {
                Ability::Missing(Obstacle { reason, remedy }) => {
                    assert!(!reason.is_empty() && !remedy.is_empty(), "{control:?}");
                    Some(control.as_str())
                }
                Ability::Enforced { .. } | Ability::NotBuiltIn(_) => None,
            })
            .collect();
        assert_eq!(refused, ["max_io_bytes_per_second", "commands"]);
    }

    #[test]
    fn isolation_names_the_accelerator_that_runs() {
        for accelerator in [Accelerator::Kvm, Accelerator::Tcg] {
            let Ability::Enforced { mechanism, .. } =
                &reference_abilities(accelerator)[&Control::Isolation]
            else {
                panic!("isolation is always enforced");
            };
            assert!(mechanism.contains(&format!("by {accelerator}: ")), "{mechanism}");
        }
    }
}
