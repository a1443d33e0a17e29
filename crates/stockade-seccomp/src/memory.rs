//! Calls refused without a memory cgroup: they create memory that a watchdog cannot see.

use super::{Action, Comparison, Condition, Profile, Rule, Syscall, Width};

const ENOSPC: Action = Action::Errno(28);
const ENOSYS: Action = Action::Errno(38);

const IPC_PRIVATE: u64 = 0;
const IPC_CREAT: u64 = 0o1000;
/// Calls that create System V objects, which outlive their processes, and the index of their flags.
/// Shared memory can have any size; queues and semaphores are small but can be many.
const MAKE_OBJECTS: [(&str, u8); 3] = [("shmget", 2), ("semget", 2), ("msgget", 1)];

/// What enforces the memory limit of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryHolder {
    /// A cgroup, which counts every page.
    Cgroup,
    /// A watchdog, which sees only memory that processes map.
    Watchdog,
}

/// The profile to add to the built-in one if a watchdog enforces the memory limit: refuses memory
/// files and new System V objects.
pub fn unseen_memory() -> Profile {
    let mut profile = Profile { default: Action::Allow, rules: Default::default() };
    let mut add = |name: &str, rules: Vec<Rule>| {
        profile.rules.extend(Syscall::named(name).map(|syscall| (syscall, rules)));
    };
    add("memfd_create", vec![Rule::always(ENOSYS)]);
    for (name, flags) in MAKE_OBJECTS {
        let refuse = |argument, comparison| Rule {
            conditions: vec![Condition { argument, width: Width::Low32, comparison }],
            action: ENOSPC,
        };
        let new = Comparison::MaskedEqual { mask: IPC_CREAT, value: IPC_CREAT };
        add(name, vec![refuse(0, Comparison::Equal(IPC_PRIVATE)), refuse(flags, new)]);
    }
    profile
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Architecture, Call, compile};

    #[test]
    fn memory_that_no_process_maps_cannot_be_created() {
        for architecture in Architecture::ALL {
            let answer = |name: &str, arguments: [u64; 3]| {
                let number = Syscall::named(name).unwrap().number(architecture).unwrap();
                let [first, second, third] = arguments;
                let arguments = [first, second, third, 0, 0, 0];
                let call = Call { audit: architecture.audit(), number, arguments };
                unseen_memory().evaluate(architecture, &call)
            };
            assert_eq!(answer("memfd_create", [1, 0, 0]), ENOSYS);
            let high = 1 << 32;
            for name in ["shmget", "semget"] {
                assert_eq!(answer(name, [0, 4096, 0o600]), ENOSPC, "{name}");
                assert_eq!(answer(name, [high, 4096, 0o600]), ENOSPC, "{name}");
                assert_eq!(answer(name, [7, 4096, 0o1600]), ENOSPC, "{name}");
                assert_eq!(answer(name, [7, 4096, 0o600]), Action::Allow, "{name}");
            }
            assert_eq!(answer("msgget", [7, 0o1600, 0]), ENOSPC);
            assert_eq!(answer("msgget", [7, 0, 0o1600]), Action::Allow);
            compile(&unseen_memory(), architecture).unwrap();
        }
    }
}
