//! The cgroup of a sandbox, with its limits, before anything is in it.

use std::os::fd::OwnedFd;

use stockade_policy::{Limit, Policy};

use crate::error::StartError;
use crate::plan::CgroupInputs;
use stockade_cgroup::{Controller, Group, GroupName, Layout, Limits};

/// Makes the group, where cgroups can hold anything here. Returns it with what the plan says of it
/// and the descriptors that the first process enters it by.
pub(crate) fn make_group(
    policy: &Policy,
    layout: &Layout,
    name: &GroupName,
) -> Result<(Option<Group>, CgroupInputs, Vec<OwnedFd>), StartError> {
    let mut inputs = CgroupInputs {
        memory_held: layout.has(Controller::Memory),
        pids_held: layout.has(Controller::Pids),
        ..CgroupInputs::default()
    };
    if !layout.has(Controller::Kill) {
        return Ok((None, inputs, Vec::new()));
    }
    let limits = limits(policy, layout);
    #[cfg(feature = "weaken")]
    let limits = crate::weaken::limits(limits);
    let group = Group::create(layout, name, &limits)?;
    (inputs.seat, inputs.removal) = (group.seat(), group.removal());
    let mut descriptors = Vec::new();
    for tasks in group.tasks()? {
        inputs.tasks.push(tasks.path);
        descriptors.push(tasks.file);
    }
    Ok((Some(group), inputs, descriptors))
}

/// What cgroups can hold of a policy here.
fn limits(policy: &Policy, layout: &Layout) -> Limits {
    let value = |limit, controller| policy.limits.value(limit).filter(|_| layout.has(controller));
    Limits {
        memory_bytes: value(Limit::Memory, Controller::Memory).map(|mebibytes| mebibytes << 20),
        cpu_millis: value(Limit::Cpu, Controller::Cpu),
        pids: value(Limit::Pids, Controller::Pids),
        io_bytes_per_second: value(Limit::IoRate, Controller::Io),
    }
}
