//! Steps around the files: the new root becomes the root, limits of single processes, and what
//! comes after the end.

use std::path::PathBuf;

use stockade_cgroup::Removal;
use stockade_launcher::{AfterStep, Resource, Step};
use stockade_policy::{Limit, Policy, WORKSPACE};

use crate::machine::Machine;

use super::{Inputs, etc, limit, tools};

/// Too little for any core dump, and the one limit at which the kernel does not feed a handler of the
/// host either: `core_pattern` with a pipe is fed at 0, core(5).
const CORE_BYTES: u64 = 1;
/// Bytes in message queues and signals waiting: what Linux gives an ordinary user, and less. A
/// machine with little memory gives fewer signals, and then it is those.
const QUEUE_BYTES: u64 = 819_200;
const PENDING_SIGNALS: u64 = 4096;
const LOCKED_BYTES: u64 = 8 << 20;

/// From the finished root to the moment before privileges are given up.
pub(super) fn closing(inputs: &Inputs<'_>) -> Vec<Step> {
    let mut steps = vec![Step::Pivot, Step::SealRoot, Step::Loopback];
    steps.extend(inputs.way_out.step());
    steps.extend(inputs.tools.as_deref().map(tools::step));
    steps.push(Step::HostName(etc::HOST_NAME.to_owned()));
    steps.extend(limits(inputs));
    steps.extend([Step::NewSession, Step::WorkingDirectory(PathBuf::from(WORKSPACE))]);
    steps
}

fn limits(inputs: &Inputs<'_>) -> Vec<Step> {
    let (policy, machine) = (inputs.policy, inputs.machine);
    let mut limits = kept_small(policy, machine);
    if !(inputs.cgroup.memory_held && inputs.cgroup.pids_held) {
        // Counted per user namespace since Linux 5.14; the guest is one of them.
        limits.push((Resource::Processes, limit(policy, Limit::Pids) + 1));
        // A backstop for what grows faster than it is sampled; a process may reserve more than it
        // uses, so this is wider than the limit itself.
        let memory = limit(policy, Limit::Memory) << 20;
        limits.push((Resource::Data, memory * 2 + (256 << 20)));
    }
    let mut steps = Vec::new();
    for (resource, amount) in limits {
        match (resource, &inputs.tools) {
            // The guest has one for each connection of a program, and programs what was asked for.
            (Resource::OpenFiles, Some(_)) if tools::guest_files(inputs) > amount => {
                let guests = tools::guest_files(inputs);
                steps
                    .extend([Step::Limit { resource, amount: guests }, Step::ProgramFiles(amount)]);
            }
            _ => steps.push(Step::Limit { resource, amount }),
        }
    }
    steps
}

/// Limits of every process, whatever else holds it.
pub(crate) fn kept_small(policy: &Policy, machine: &Machine) -> Vec<(Resource, u64)> {
    vec![
        (Resource::Core, CORE_BYTES),
        (Resource::OpenFiles, limit(policy, Limit::OpenFiles)),
        (Resource::MessageQueues, QUEUE_BYTES.min(machine.queue_bytes)),
        (Resource::PendingSignals, PENDING_SIGNALS.min(machine.pending_signals)),
        (Resource::LockedMemory, LOCKED_BYTES.min(machine.locked_bytes)),
    ]
}

/// What the launcher does when everything inside has ended.
pub(crate) fn after(removal: &Removal) -> Vec<AfterStep> {
    let kill = removal.kill.iter().map(|file| AfterStep::KillCgroup { file: file.clone() });
    let remove = removal
        .directories
        .iter()
        .map(|directory| AfterStep::RemoveCgroup { directory: directory.clone() });
    kill.chain(remove).collect()
}
