//! Turns a policy into the steps of the reduced wall. Pure.

use std::path::PathBuf;

use stockade_launcher::{AfterStep, Birth, Family, LandlockRule, Plan, Reach, Resource, Step};
use stockade_policy::{Limit, Policy};

use crate::filters::RawFilter;
use crate::machine::Machine;
use crate::plan::{CgroupInputs, USER, after, common_rlimits, enter, limit};

/// The first Landlock version that can restrict ports.
const LANDLOCK_KNOWS_PORTS: u32 = 4;

/// The inputs of a plan.
pub(super) struct Inputs<'a> {
    pub(super) policy: &'a Policy,
    pub(super) machine: &'a Machine,
    pub(super) landlock: u32,
    /// The first id of the sandbox's own range; `None` if it has the caller's ids.
    pub(super) first_id: Option<u32>,
    /// How many tasks the user has outside the sandbox.
    pub(super) other_tasks: u64,
    pub(super) rules: Vec<LandlockRule>,
    pub(super) cgroup: CgroupInputs,
    /// The directory for everything that programs write; the launcher removes it.
    pub(super) scratch: PathBuf,
    pub(super) filters: Vec<RawFilter>,
}

/// Plans the whole wall.
pub(super) fn plan(inputs: &Inputs<'_>) -> Plan {
    let reach = match inputs.first_id {
        Some(first) => Reach::User(first + USER),
        None => Reach::Domain,
    };
    let mut after = after(&inputs.cgroup.removal);
    after.push(AfterStep::RemoveTree { directory: inputs.scratch.clone() });
    let birth = Birth {
        family: Family::Descendants(reach),
        cgroup: inputs.cgroup.seat.clone(),
        #[cfg(feature = "weaken")]
        shared: Vec::new(),
    };
    Plan { outside: Vec::new(), birth, inside: inside(inputs), after, has_timer: true }
}

/// The steps. Their order is a security property.
fn inside(inputs: &Inputs<'_>) -> Vec<Step> {
    let mut steps = enter(&inputs.cgroup);
    // First: makes the guest a subreaper, so that orphans are reparented to it and not to the
    // host's init.
    steps.push(Step::AdoptOrphans);
    if let Some(first) = inputs.first_id {
        steps.push(Step::BecomeUser { user: first + USER, group: first + USER });
    }
    steps.extend(limits(inputs));
    steps.extend([Step::NewSession, Step::SealPrivileges]);
    let (version, rules) = (inputs.landlock, inputs.rules.clone());
    steps.push(Step::Landlock { version, rules });
    if version >= LANDLOCK_KNOWS_PORTS {
        steps.push(Step::LandlockNetwork { version });
    }
    // Last: the filter refuses calls that the earlier steps need.
    steps.push(Step::Seccomp { programs: inputs.filters.clone() });
    steps.push(Step::ServeConfined);
    steps
}

fn limits(inputs: &Inputs<'_>) -> Vec<Step> {
    let policy = inputs.policy;
    let mut limits = common_rlimits(policy, inputs.machine);
    limits.push((Resource::FileSize, limit(policy, Limit::Disk) << 20));
    if !inputs.cgroup.memory_held {
        let memory = limit(policy, Limit::Memory) << 20;
        limits.push((Resource::Data, memory * 2 + (256 << 20)));
    }
    if !inputs.cgroup.pids_held {
        let most = limit(policy, Limit::Pids) + 1;
        limits.push((
            Resource::Processes,
            match inputs.first_id {
                Some(_) => most,
                // Linux counts all tasks of the user, so this can only be a backstop for what grows
                // faster than it is measured.
                None => inputs.other_tasks + 2 * most + 256,
            },
        ));
    }
    limits.into_iter().map(|(resource, amount)| Step::Limit { resource, amount }).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn planned(first_id: Option<u32>) -> Plan {
        let policy = Policy::parse_str("p", "{}", Path::new("/")).unwrap();
        let tasks = vec![PathBuf::from("/sys/fs/cgroup/x/tasks")];
        plan(&Inputs {
            policy: &policy,
            machine: &Machine::look(),
            landlock: 6,
            first_id,
            other_tasks: 0,
            rules: Vec::new(),
            cgroup: CgroupInputs { tasks, ..CgroupInputs::default() },
            scratch: PathBuf::from("/tmp/x"),
            filters: Vec::new(),
        })
    }

    fn names(first_id: Option<u32>) -> Vec<&'static str> {
        let mut names: Vec<_> = planned(first_id).inside.iter().map(Step::name).collect();
        names.dedup();
        names
    }

    #[test]
    fn order_keeps_every_step_of_the_reduced_wall_safe() {
        let after_ids =
            ["limit", "new_session", "seal_privileges", "landlock", "landlock_network", "seccomp"];
        let expected = |ids: &[&'static str]| {
            [&["enter_cgroup", "adopt_orphans"], ids, &after_ids, &["serve_confined"]].concat()
        };
        assert_eq!(names(Some(0x7000_0000)), expected(&["become_user"]));
        assert_eq!(names(None), expected(&[]));
    }

    #[test]
    fn reduced_wall_kills_by_uid_or_landlock_domain_and_removes_its_directory() {
        let family = |first| planned(first).birth.family;
        assert_eq!(family(Some(0x7000_0000)), Family::Descendants(Reach::User(0x7000_03e8)));
        assert_eq!(family(None), Family::Descendants(Reach::Domain));
        let directory = PathBuf::from("/tmp/x");
        assert_eq!(planned(None).after, [AfterStep::RemoveTree { directory }]);
    }
}
