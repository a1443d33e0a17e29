//! Turns a policy into the steps that build its wall. Pure: the host was inspected before.

mod commands;
mod egress;
mod etc;
mod files;
mod guard;
mod rest;
mod tools;

use std::path::PathBuf;

use stockade_cgroup::Removal;
use stockade_launcher::{Birth, Family, IdMap, Mapper, Plan, Step, ToolFile};
use stockade_policy::{Limit, Policy};

use crate::filters::RawFilter;
use crate::host_files::HostFiles;
use crate::id_range::IdRange;
use crate::machine::Machine;
use crate::sub_ids::SubIds;

pub(crate) use egress::Egress;
pub(crate) use etc::{ACCOUNTS, AUTHORITIES};
pub(crate) use files::Visible;
pub(crate) use rest::{after, common_rlimits};
pub(crate) use tools::command as tool_command;

/// The user and group id of everything inside, unless the caller chose a user of an image.
pub(crate) const USER: u32 = 1000;

/// The inputs of a plan.
pub(crate) struct Inputs<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) machine: &'a Machine,
    /// The host files that are shown inside.
    pub(crate) files: &'a HostFiles,
    /// Devices of the host, in addition to those of every sandbox.
    pub(crate) devices: &'a [PathBuf],
    /// The user and group of everything inside; usually [`USER`].
    pub(crate) ids: (u32, u32),
    /// The first host id of the sandbox's own range; `None` if it has only the caller's ids.
    pub(crate) first_id: Option<u32>,
    /// Ids that the host delegates to a caller who is not root, if the sandbox can use them.
    pub(crate) sub_ids: Option<SubIds>,
    /// Whether egress is possible.
    pub(crate) egress: Egress,
    pub(crate) cgroup: CgroupInputs,
    /// Compiled seccomp filters.
    pub(crate) filters: Vec<RawFilter>,
    /// The filter that sends a notification for each start of a program, if the policy has a
    /// `command_allowlist`.
    pub(crate) program_watch: Option<RawFilter>,
    /// The tool files that programs see, if they can call tools.
    pub(crate) tools: Option<Vec<ToolFile>>,
    /// Whether stubs of the image may report denied commands.
    pub(crate) has_stubs: bool,
    /// The certificates that programs must trust, if connections are opened.
    pub(crate) authorities: Option<String>,
    /// The files of `/proc` that describe the machine, with the content that the sandbox sees.
    pub(crate) proc_files: Vec<(&'static str, String)>,
}

/// The cgroups of a plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct CgroupInputs {
    /// The v2 cgroup that the first process is cloned into.
    pub(crate) seat: Option<PathBuf>,
    /// The `tasks` files of v1 cgroups, through which the first process enters them.
    pub(crate) tasks: Vec<PathBuf>,
    /// Whether executions have leaves of their own.
    pub(crate) has_leaves: bool,
    /// What the launcher removes at the end.
    pub(crate) removal: Removal,
    /// Whether a cgroup enforces the memory limit, and the process limit.
    pub(crate) memory_held: bool,
    pub(crate) pids_held: bool,
}

/// Plans the whole wall.
pub(crate) fn plan(inputs: &Inputs<'_>) -> Plan {
    let visible = Visible::of(inputs);
    let range = |first: u32| IdMap { inside: 0, outside: first, count: IdRange::COUNT };
    let own = |inside: u32, outside: u32| IdMap { inside, outside, count: 1 };
    let (user, group) = inputs.ids;
    let (users, groups, mapper) = match (inputs.first_id, inputs.sub_ids) {
        (Some(first), _) => (range(first), range(first), Mapper::Launcher),
        (None, Some(ids)) => (range(ids.first_user), range(ids.first_group), Mapper::Helpers),
        (None, None) => {
            let (users, groups) = (inputs.machine.user, inputs.machine.group);
            (own(user, users), own(group, groups), Mapper::Launcher)
        }
    };
    Plan {
        outside: visible.taken_outside(),
        birth: Birth {
            family: Family::Namespaces { users, groups, mapper },
            cgroup: inputs.cgroup.seat.clone(),
            #[cfg(feature = "weaken")]
            shared: Vec::new(),
        },
        inside: inside(inputs, &visible),
        after: rest::after(&inputs.cgroup.removal),
        has_timer: true,
    }
}

/// The steps of the first process. Their order is a security property; each constraint has a
/// comment.
fn inside(inputs: &Inputs<'_>, visible: &Visible) -> Vec<Step> {
    let mut steps = enter(&inputs.cgroup);
    // After entering the cgroups: they become the root of the cgroup namespace.
    steps.extend([Step::OwnCgroups, Step::PrivateMounts]);
    // Before the change of user: opening host files needs the caller's rights.
    steps.extend(visible.taken());
    let (user, group) = inputs.ids;
    steps.push(Step::BecomeUser { user, group });
    // After the change of user: new file systems then belong to the ids that use them.
    steps.extend(visible.built(inputs));
    steps.extend(visible.finished(inputs));
    steps.extend(rest::closing(inputs));
    // No later step needs capabilities.
    steps.extend([Step::SealPrivileges, Step::DieWithParent]);
    steps.extend(guard::landlock(inputs, visible));
    // Before the other filters, which may refuse to install one.
    let watch = inputs.program_watch.clone();
    steps.extend(watch.map(|program| Step::WatchPrograms { program }));
    // Last: the filter refuses calls that the earlier steps need.
    steps.push(Step::Seccomp { programs: inputs.filters.clone() });
    steps.push(Step::Serve);
    steps
}

/// First, so that the sandbox's cgroups count the mounts.
pub(crate) fn enter(cgroup: &CgroupInputs) -> Vec<Step> {
    let enter = cgroup.tasks.iter().map(|file| Step::EnterCgroup { file: file.clone() });
    enter.chain(cgroup.has_leaves.then_some(Step::Leaves)).collect()
}

/// A limit of the policy; every policy has a value for each limit that is used here.
pub(crate) fn limit(policy: &Policy, limit: Limit) -> u64 {
    policy.limits.value(limit).unwrap_or_else(|| limit.spec().min)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
