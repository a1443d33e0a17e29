//! Turns a policy into the plan of a machine. Pure.

use stockade_carrier::guest_words;
use stockade_policy::{Limit, Policy, SCRATCH, WORKSPACE, Workspace};
use stockade_provider::ToolAccess;
use stockade_wire::{
    MachineCopy, MachineLimits, MachinePlace, MachinePlan, MachineTools, NAME_SERVER,
};

use crate::Accelerator;
use crate::command::Machine;

/// The ids of programs, if the caller chooses none.
pub(crate) const NOBODY: (u32, u32) = (65534, 65534);

/// Where the guest opens the tool socket: in a place of its own user.
const SOCKET: &str = "/run/stockade-guest/tools.sock";
/// The machine's kernel and the guest, in MiB, in addition to the memory of programs.
const OWN_MIB: u64 = 128;
/// The memory for copies grows in such steps, because each size needs a saved machine of its own.
const COPIES_STEP_MIB: u64 = 64;
/// QEMU's buffer for translated code. A larger one helps only programs of hundreds of megabytes.
const TRANSLATION_MIB: u64 = 128;
/// The guest is one process with one thread.
const OWN_TASKS: u64 = 1;
/// The guest's open descriptors other than connections, and its connections for each of two kinds.
const GUEST_FILES: u64 = 64 + 2 * 1024;

/// What a plan is made from.
pub(crate) struct Inputs<'i> {
    pub(crate) policy: &'i Policy,
    pub(crate) user: (u32, u32),
    pub(crate) copies: &'i [MachineCopy],
    pub(crate) has_network: bool,
    pub(crate) has_tools: bool,
    /// Random hexadecimal digits that name the machine.
    pub(crate) machine_id: &'i str,
}

/// The machine for a policy. Programs get the policy's memory; the kernel, the guest and copies of
/// host files have their own in addition.
pub(crate) fn machine(
    policy: &Policy,
    copies: &[MachineCopy],
    accelerator: Accelerator,
) -> Machine {
    let copied: u64 = copies.iter().map(|copy| copy.archive_bytes).sum();
    Machine {
        accelerator,
        memory_mib: limit_of(policy, Limit::Memory)
            + OWN_MIB
            + mib(2 * copied).next_multiple_of(COPIES_STEP_MIB),
        cpus: limit_of(policy, Limit::Cpu).div_ceil(1000).max(1),
        translation_mib: match accelerator {
            Accelerator::Kvm => 0,
            Accelerator::Tcg => TRANSLATION_MIB,
        },
        has_own_disk: false,
    }
}

/// What the first process inside arranges.
pub(crate) fn plan(inputs: &Inputs<'_>) -> MachinePlan {
    let Inputs { policy, user, copies, has_network, has_tools, machine_id } = inputs;
    let limit = |limit| limit_of(policy, limit);
    let files = limit(Limit::OpenFiles);
    MachinePlan {
        own: guest_words(policy, *has_network, has_tools.then_some(SOCKET)),
        user: user.0,
        group: user.1,
        files: settings(*has_network, machine_id),
        places: places(policy, copies),
        copies: copies.to_vec(),
        hidden: policy.hide.iter().map(|hide| hide.value.as_str().to_owned()).collect(),
        tools: MachineTools {
            directory: ToolAccess::DIRECTORY.to_owned(),
            links: match has_tools {
                true => vec![
                    ("bin/stockade-tool".to_owned(), "../guest".to_owned()),
                    ("tools.sock".to_owned(), SOCKET.to_owned()),
                ],
                false => Vec::new(),
            },
        },
        limits: MachineLimits {
            memory_bytes: limit(Limit::Memory) << 20,
            cpu_millis: limit(Limit::Cpu),
            tasks: limit(Limit::Pids) + OWN_TASKS,
            open_files: match *has_network || *has_tools {
                true => files.max(GUEST_FILES),
                false => files,
            },
        },
    }
}

/// The files that an installer would write.
fn settings(has_network: bool, machine_id: &str) -> Vec<(String, String)> {
    let options = match has_network {
        true => "edns0 ndots:1",
        // No server listens there, so a lookup fails at once instead of timing out.
        false => "timeout:1 attempts:1",
    };
    let resolver = format!("nameserver {}\nsearch .\noptions {options}\n", NAME_SERVER.ip());
    let hosts = "127.0.0.1 localhost sandbox\n::1 localhost\n".to_owned();
    [
        ("/etc/resolv.conf", resolver),
        ("/etc/hosts", hosts),
        ("/etc/hostname", "sandbox\n".into()),
        ("/etc/machine-id", format!("{machine_id}\n")),
    ]
    .map(|(path, text)| (path.to_owned(), text))
    .to_vec()
}

/// The writable places, and those where nothing is visible.
fn places(policy: &Policy, copies: &[MachineCopy]) -> Vec<MachinePlace> {
    let (bytes, inodes) = (limit_of(policy, Limit::Disk) << 20, limit_of(policy, Limit::Inodes));
    let place = |path: &str, mode, is_users| MachinePlace {
        path: path.to_owned(),
        bytes,
        inodes,
        mode,
        is_users,
        is_read_only: false,
    };
    let empty = |path: &str| MachinePlace {
        bytes: 4096,
        inodes: 1,
        is_read_only: true,
        ..place(path, 0o555, false)
    };
    let mut places: Vec<MachinePlace> = SCRATCH
        .iter()
        .map(|path| match *path {
            "/run" => place(path, 0o755, true),
            _ => place(path, 0o1777, false),
        })
        .collect();
    match policy.workspace.value {
        Workspace::Scratch => places.push(place(WORKSPACE, 0o755, true)),
        Workspace::Nothing => places.push(empty(WORKSPACE)),
        Workspace::Host { .. } => {}
    }
    places.retain(|place| !copies.iter().any(|copy| copy.path == place.path));
    places
}

/// A limit of the policy; every policy has a value for each limit that is used here.
fn limit_of(policy: &Policy, limit: Limit) -> u64 {
    policy.limits.value(limit).unwrap_or_else(|| limit.spec().min)
}

pub(crate) fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn policy(text: &str) -> Policy {
        Policy::parse_str("p", text, Path::new("/")).unwrap()
    }

    #[test]
    fn machine_has_the_policys_memory_and_processors_beside_its_own() {
        let policy = policy("defaults: { max_memory_mb: 1024, max_cpu: 1.5 }");
        let machine = machine(&policy, &[], Accelerator::Tcg);
        assert_eq!((machine.memory_mib, machine.cpus), (1024 + OWN_MIB, 2));
        let inputs = Inputs {
            policy: &policy,
            user: NOBODY,
            copies: &[],
            has_network: false,
            has_tools: false,
            machine_id: "00",
        };
        let limits = plan(&inputs).limits;
        assert_eq!((limits.memory_bytes, limits.cpu_millis), (1024 << 20, 1500));
    }

    #[test]
    fn every_writable_place_has_the_policys_size_and_a_copy_replaces_one() {
        let policy = policy("limits: { max_disk_mb: 7 }");
        let copy = MachineCopy {
            path: "/var/tmp".to_owned(),
            is_directory: true,
            layer: None,
            archive_bytes: 512,
            bytes: 1 << 20,
            entries: 1,
        };
        let places = places(&policy, &[copy]);
        let paths: Vec<&str> = places.iter().map(|place| place.path.as_str()).collect();
        assert_eq!(paths, ["/tmp", "/run", "/dev/shm", WORKSPACE]);
        assert!(places.iter().all(|place| place.bytes == 7 << 20 && !place.is_read_only));
    }
}
