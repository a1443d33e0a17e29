//! The steps around the files: pivoting to the new root, rlimits, and cleanup after the end.

use std::path::PathBuf;

use stockade_cgroup::Removal;
use stockade_launcher::{AfterStep, Resource, Step};
use stockade_policy::{Limit, Policy, WORKSPACE};

use crate::machine::Machine;

use super::{Inputs, etc, limit, tools};

/// Too small for any core dump. Unlike 0, it also keeps the kernel from running a host's pipe
/// handler in `core_pattern`, core(5).
const CORE_BYTES: u64 = 1;
/// The limits of message queue bytes and pending signals, at most Linux's defaults for a user. A
/// machine with little memory has a lower hard limit for signals, which then applies.
const QUEUE_BYTES: u64 = 819_200;
const PENDING_SIGNALS: u64 = 4096;
const LOCKED_BYTES: u64 = 8 << 20;

/// The steps from the finished root until privileges are dropped.
pub(super) fn closing(inputs: &Inputs<'_>) -> Vec<Step> {
    let mut steps = vec![Step::Pivot, Step::SealRoot, Step::Loopback];
    steps.extend(inputs.egress.step(inputs.policy));
    steps.extend(tools::step(inputs));
    steps.push(Step::HostName(etc::HOST_NAME.to_owned()));
    steps.extend(limits(inputs));
    steps.extend([Step::NewSession, Step::WorkingDirectory(PathBuf::from(WORKSPACE))]);
    steps
}

fn limits(inputs: &Inputs<'_>) -> Vec<Step> {
    let (policy, machine) = (inputs.policy, inputs.machine);
    let mut limits = common_rlimits(policy, machine);
    if !(inputs.cgroup.memory_held && inputs.cgroup.pids_held) {
        // Linux counts this per user namespace since 5.14; one more for the guest.
        limits.push((Resource::Processes, limit(policy, Limit::Pids) + 1));
        // A backstop for memory that grows faster than it is sampled. A process may reserve more
        // than it uses, so this is above the limit itself.
        let memory = limit(policy, Limit::Memory) << 20;
        limits.push((Resource::Data, memory * 2 + (256 << 20)));
    }
    let mut steps = Vec::new();
    for (resource, amount) in limits {
        match resource {
            // The guest needs a descriptor for each connection; programs get the limit of the
            // policy.
            Resource::OpenFiles
                if tools::is_there(inputs) && tools::guest_files(inputs) > amount =>
            {
                let guests = tools::guest_files(inputs);
                steps
                    .extend([Step::Limit { resource, amount: guests }, Step::ProgramFiles(amount)]);
            }
            _ => steps.push(Step::Limit { resource, amount }),
        }
    }
    steps
}

/// The rlimits of every process, on any wall.
pub(crate) fn common_rlimits(policy: &Policy, machine: &Machine) -> Vec<(Resource, u64)> {
    vec![
        (Resource::Core, CORE_BYTES),
        (Resource::OpenFiles, limit(policy, Limit::OpenFiles)),
        (Resource::MessageQueues, QUEUE_BYTES.min(machine.queue_bytes)),
        (Resource::PendingSignals, PENDING_SIGNALS.min(machine.pending_signals)),
        (Resource::LockedMemory, LOCKED_BYTES.min(machine.locked_bytes)),
    ]
}

/// What the launcher does after everything inside has ended.
pub(crate) fn after(removal: &Removal) -> Vec<AfterStep> {
    let kill = removal.kill.iter().map(|file| AfterStep::KillCgroup { file: file.clone() });
    let remove = removal
        .directories
        .iter()
        .map(|directory| AfterStep::RemoveCgroup { directory: directory.clone() });
    let thaw = removal.freezer.iter().map(|it| AfterStep::ThawCgroups { directory: it.clone() });
    kill.chain(thaw).chain(remove).collect()
}
