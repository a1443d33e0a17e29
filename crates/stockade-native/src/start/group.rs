//! Creates the cgroup of a sandbox, with its limits, before any process is in it.

use std::os::fd::OwnedFd;
use std::path::Path;

use stockade_policy::{Limit, Policy};

use crate::error::StartError;
use crate::leaves::Leaves;
use crate::plan::CgroupInputs;
use stockade_cgroup::{Controller, Group, GroupName, Layout, Limits};

/// The cgroup of a sandbox, and its part of the plan.
pub(crate) struct Grouped {
    pub(crate) group: Option<Group>,
    pub(crate) leaves: Option<Leaves>,
    pub(crate) inputs: CgroupInputs,
    /// The files through which the first process enters the group, and the guest's end of the
    /// socket for leaves.
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// Creates the group if any cgroup controller is usable. `device` is one more that may be opened.
pub(crate) fn make_group(
    policy: &Policy,
    layout: &Layout,
    name: &GroupName,
    device: Option<&Path>,
) -> Result<Grouped, StartError> {
    let mut inputs = CgroupInputs {
        memory_held: layout.has(Controller::Memory),
        pids_held: layout.has(Controller::Pids),
        ..CgroupInputs::default()
    };
    if !layout.has(Controller::Kill) {
        return Ok(Grouped { group: None, leaves: None, inputs, descriptors: Vec::new() });
    }
    let device = device.and_then(numbers);
    let limits = limits(policy, layout, device);
    #[cfg(feature = "weaken")]
    let limits = crate::weaken::limits(limits);
    let group = Group::create(layout, name, &limits)?;
    (inputs.seat, inputs.removal) = (group.seat(), group.removal());
    let mut descriptors = Vec::new();
    for tasks in group.tasks()? {
        inputs.tasks.push(tasks.path);
        descriptors.push(tasks.file);
    }
    let (leaves, guests_end) = Leaves::below(&group)?;
    inputs.has_leaves = true;
    descriptors.push(guests_end);
    Ok(Grouped { group: Some(group), leaves: Some(leaves), inputs, descriptors })
}

/// The numbers of a device; `None` if it is not there, so that nothing can open it.
fn numbers(device: &Path) -> Option<(u32, u32)> {
    let found = rustix::fs::stat(device).ok()?;
    Some((rustix::fs::major(found.st_rdev), rustix::fs::minor(found.st_rdev)))
}

/// The policy's limits that cgroups can enforce here.
fn limits(policy: &Policy, layout: &Layout, device: Option<(u32, u32)>) -> Limits {
    let value = |limit, controller| policy.limits.value(limit).filter(|_| layout.has(controller));
    Limits {
        memory_bytes: value(Limit::Memory, Controller::Memory).map(|mebibytes| mebibytes << 20),
        cpu_millis: value(Limit::Cpu, Controller::Cpu),
        pids: value(Limit::Pids, Controller::Pids),
        io_bytes_per_second: value(Limit::IoRate, Controller::Io),
        device,
    }
}
