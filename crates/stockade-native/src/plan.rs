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
use stockade_launcher::{Beginning, Birth, Family, IdMap, OutsideStep, Step, ToolFile};
use stockade_policy::{Limit, Policy};

use crate::filters::RawFilter;
use crate::host_files::HostFiles;
use crate::machine::Machine;

pub(crate) use files::{CODE_DIRECTORY, Visible};
pub(crate) use rest::{after, kept_small};
pub(crate) use tools::command as tool_command;
pub(crate) use way_out::{WayOut, proxy_variables};

/// The user and group id of everything inside.
pub(crate) const USER: u32 = 1000;

/// What decides how a sandbox begins.
#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) machine: &'a Machine,
    /// What of the host is shown inside.
    pub(crate) files: &'a HostFiles,
    /// The first of the host's ids that the sandbox has to itself; none where it has only the
    /// caller's own.
    pub(crate) first_id: Option<u32>,
}

/// What the root of a sandbox is made of.
pub(crate) struct RootInputs<'a> {
    pub(crate) site: Site<'a>,
    /// Whether connections can leave.
    pub(crate) way_out: WayOut,
}

/// Everything that the rest of a plan is made of.
pub(crate) struct Inputs<'a> {
    pub(crate) root: RootInputs<'a>,
    /// Files of version 1 cgroups that the first process enters by.
    pub(crate) tasks: Vec<PathBuf>,
    /// Whether a cgroup holds memory and processes.
    pub(crate) held_by_cgroup: bool,
    /// System-call filters, compiled.
    pub(crate) filters: Vec<RawFilter>,
    /// The filter that asks before a program is started, where the policy lists programs.
    pub(crate) program_watch: Option<RawFilter>,
    /// What programs find of tools, where they can call any.
    pub(crate) tools: Option<Vec<ToolFile>>,
    /// What the sandbox's `/proc` says of the machine.
    pub(crate) proc_files: Vec<(&'static str, String)>,
    /// What everything inside may run on, where the first process may run on less so far.
    pub(crate) processors: Option<Vec<u32>>,
}

/// Which ids a sandbox has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ids {
    /// Those of the caller.
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// The first of the host's ids that the sandbox has to itself; none where it has only the
    /// caller's own.
    pub(crate) first: Option<u32>,
}

impl Ids {
    pub(crate) fn of_caller(first: Option<u32>) -> Ids {
        let user = rustix::process::geteuid().as_raw();
        Ids { user, group: rustix::process::getegid().as_raw(), first }
    }
}

/// The launcher's part of the plan. `seat` is the version 2 cgroup to be born in.
pub(crate) fn beginning(
    ids: Ids,
    outside: Vec<OutsideStep>,
    seat: Option<PathBuf>,
    removal: &Removal,
) -> Beginning {
    let map = |own: u32| match ids.first {
        Some(first) => IdMap { inside: 0, outside: first, count: 1 << 16 },
        None => IdMap { inside: USER, outside: own, count: 1 },
    };
    Beginning {
        outside,
        birth: Birth {
            family: Family::Namespaces { users: map(ids.user), groups: map(ids.group) },
            cgroup: seat,
            #[cfg(feature = "weaken")]
            shared: Vec::new(),
        },
        after: rest::after(removal),
    }
}

/// What is taken of the host before the first process is born.
pub(crate) fn outside(site: &Site<'_>) -> Vec<OutsideStep> {
    Visible::of(site).taken_outside()
}

/// The first steps, in the order that keeps each safe: see the comments at each group. The kernel
/// mounts while the host makes cgroups and thinks about the rest.
pub(crate) fn root(inputs: &RootInputs<'_>) -> Vec<Step> {
    let visible = Visible::of(&inputs.site);
    let mut steps = vec![Step::PrivateMounts];
    // While the ids are still the caller's: the host's files are reached with its rights.
    steps.extend(visible.taken());
    steps.push(Step::BecomeUser { user: USER, group: USER });
    // File systems are made by the ids that will use them.
    steps.extend(visible.built(inputs));
    steps.push(Step::AwaitMore);
    steps
}

/// The steps that follow.
pub(crate) fn inside(inputs: &Inputs<'_>) -> Vec<Step> {
    let visible = Visible::of(&inputs.root.site);
    let mut steps: Vec<Step> =
        inputs.tasks.iter().map(|file| Step::EnterCgroup { file: file.clone() }).collect();
    // After the cgroups are entered: they become the top of what is seen.
    steps.push(Step::OwnCgroups);
    steps.extend(visible.finished(inputs));
    steps.extend(rest::closing(inputs));
    // Capabilities are needed up to here and by nothing that follows.
    steps.extend([Step::SealPrivileges, Step::DieWithParent]);
    steps.extend(guard::landlock(inputs, &visible));
    // Before the other filters: they may refuse a program to install one.
    let watch = inputs.program_watch.clone();
    steps.extend(watch.map(|program| Step::WatchPrograms { program }));
    // Last: the filter refuses what the steps before needed.
    steps.push(Step::Seccomp { programs: inputs.filters.clone() });
    steps.push(Step::Serve);
    steps
}

/// A limit of the policy; every one that is asked for here has a value in every policy.
pub(crate) fn limit(policy: &Policy, limit: Limit) -> u64 {
    policy.limits.value(limit).unwrap_or_else(|| limit.spec().min)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
