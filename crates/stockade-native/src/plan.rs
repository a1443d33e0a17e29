//! From a policy to the steps that build its wall. Pure: what the host has was looked at before.

mod commands;
mod etc;
mod files;
mod guard;
mod rest;
mod tools;
mod way_out;

use std::path::PathBuf;

use stockade_cgroup::Removal;
use stockade_launcher::{Birth, Family, IdMap, Mapper, Plan, Step, ToolFile};
use stockade_policy::{Limit, Policy};

use crate::filters::RawFilter;
use crate::host_files::HostFiles;
use crate::id_range::IdRange;
use crate::machine::Machine;
use crate::sub_ids::SubIds;

pub(crate) use files::{CODE_DIRECTORY, Visible};
pub(crate) use rest::{after, kept_small};
pub(crate) use tools::command as tool_command;
pub(crate) use way_out::{WayOut, proxy_variables};

/// The user and group id of everything inside.
pub(crate) const USER: u32 = 1000;

/// Everything that a plan is made of.
pub(crate) struct Inputs<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) machine: &'a Machine,
    /// What of the host is shown inside.
    pub(crate) files: &'a HostFiles,
    /// The first of the host's ids that the sandbox has to itself; none where it has only the
    /// caller's own.
    pub(crate) first_id: Option<u32>,
    /// Ids that the host gives to a caller who is not root, where the sandbox can have them.
    pub(crate) sub_ids: Option<SubIds>,
    /// Whether connections can leave.
    pub(crate) way_out: WayOut,
    pub(crate) cgroup: CgroupInputs,
    /// System-call filters, compiled.
    pub(crate) filters: Vec<RawFilter>,
    /// The filter that asks before a program is started, where the policy lists programs.
    pub(crate) program_watch: Option<RawFilter>,
    /// What programs find of tools, where they can call any.
    pub(crate) tools: Option<Vec<ToolFile>>,
    /// What the sandbox's `/proc` says of the machine.
    pub(crate) proc_files: Vec<(&'static str, String)>,
}

/// What a plan says of cgroups.
#[derive(Clone, Debug, Default)]
pub(crate) struct CgroupInputs {
    /// The version 2 cgroup that the first process is born in.
    pub(crate) seat: Option<PathBuf>,
    /// Files of version 1 cgroups that the first process enters by.
    pub(crate) tasks: Vec<PathBuf>,
    /// What the launcher removes in the end.
    pub(crate) removal: Removal,
    /// Whether a cgroup holds memory, and the number of processes.
    pub(crate) memory_held: bool,
    pub(crate) pids_held: bool,
}

/// The whole wall.
pub(crate) fn plan(inputs: &Inputs<'_>) -> Plan {
    let visible = Visible::of(inputs);
    let range = |first: u32| IdMap { inside: 0, outside: first, count: IdRange::COUNT };
    let own = |id: u32| IdMap { inside: USER, outside: id, count: 1 };
    let (users, groups, mapper) = match (inputs.first_id, inputs.sub_ids) {
        (Some(first), _) => (range(first), range(first), Mapper::Launcher),
        (None, Some(ids)) => (range(ids.first_user), range(ids.first_group), Mapper::Helpers),
        (None, None) => (own(inputs.machine.user), own(inputs.machine.group), Mapper::Launcher),
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

/// The steps of the first process, in the order that keeps each safe: see the comments at each
/// group.
fn inside(inputs: &Inputs<'_>, visible: &Visible) -> Vec<Step> {
    let mut steps = enter(&inputs.cgroup);
    // After the cgroups are entered: they become the top of what is seen.
    steps.extend([Step::OwnCgroups, Step::PrivateMounts]);
    // While the ids are still the caller's: the host's files are reached with its rights.
    steps.extend(visible.taken());
    steps.push(Step::BecomeUser { user: USER, group: USER });
    // File systems are made by the ids that will use them.
    steps.extend(visible.built(inputs));
    steps.extend(visible.finished(inputs));
    steps.extend(rest::closing(inputs));
    // Capabilities are needed up to here and by nothing that follows.
    steps.extend([Step::SealPrivileges, Step::DieWithParent]);
    steps.extend(guard::landlock(inputs, visible));
    // Before the other filters: they may refuse a program to install one.
    let watch = inputs.program_watch.clone();
    steps.extend(watch.map(|program| Step::WatchPrograms { program }));
    // Last: the filter refuses what the steps before needed.
    steps.push(Step::Seccomp { programs: inputs.filters.clone() });
    steps.push(Step::Serve);
    steps
}

/// First: what is mounted is counted in the sandbox's groups.
pub(crate) fn enter(cgroup: &CgroupInputs) -> Vec<Step> {
    cgroup.tasks.iter().map(|file| Step::EnterCgroup { file: file.clone() }).collect()
}

/// A limit of the policy; every one that is asked for here has a value in every policy.
pub(crate) fn limit(policy: &Policy, limit: Limit) -> u64 {
    policy.limits.value(limit).unwrap_or_else(|| limit.spec().min)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
