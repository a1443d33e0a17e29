//! From a policy to the steps of the reduced wall. Pure.

use std::path::PathBuf;

use stockade_cgroup::Removal;
use stockade_launcher::{AfterStep, Beginning, Birth, Family, LandlockRule, Reach, Resource, Step};
use stockade_policy::{Limit, Policy};

use crate::filters::RawFilter;
use crate::machine::Machine;
use crate::plan::{USER, after, kept_small, limit};

/// The first version of Landlock that knows ports.
const LANDLOCK_KNOWS_PORTS: u32 = 4;

/// Everything that a plan is made of.
pub(super) struct Inputs<'a> {
    pub(super) policy: &'a Policy,
    pub(super) machine: &'a Machine,
    pub(super) landlock: u32,
    /// The first of the ids that the sandbox has to itself; none where it has the caller's own.
    pub(super) first_id: Option<u32>,
    /// How many tasks the user has beside the sandbox.
    pub(super) other_tasks: u64,
    pub(super) rules: Vec<LandlockRule>,
    /// Files of version 1 cgroups that the first process enters by.
    pub(super) tasks: Vec<PathBuf>,
    pub(super) memory_held: bool,
    pub(super) pids_held: bool,
    pub(super) filters: Vec<RawFilter>,
    /// What everything inside may run on, where the first process may run on less so far.
    pub(super) processors: Option<Vec<u32>>,
}

/// The launcher's part of the plan. `seat` is the version 2 cgroup to be born in.
pub(super) fn beginning(
    first_id: Option<u32>,
    seat: Option<PathBuf>,
    removal: &Removal,
    scratch: PathBuf,
) -> Beginning {
    let reach = match first_id {
        Some(first) => Reach::User(first + USER),
        None => Reach::Domain,
    };
    let mut after = after(removal);
    after.push(AfterStep::RemoveTree { directory: scratch });
    let birth = Birth {
        family: Family::Descendants(reach),
        cgroup: seat,
        #[cfg(feature = "weaken")]
        shared: Vec::new(),
    };
    Beginning { outside: Vec::new(), birth, after }
}

/// The steps, in the order that keeps each safe.
pub(super) fn inside(inputs: &Inputs<'_>) -> Vec<Step> {
    let mut steps: Vec<Step> =
        inputs.tasks.iter().map(|file| Step::EnterCgroup { file: file.clone() }).collect();
    // While it still may: no process takes others in without being asked.
    steps.push(Step::AdoptOrphans);
    if let Some(first) = inputs.first_id {
        steps.push(Step::BecomeUser { user: first + USER, group: first + USER });
    }
    steps.extend(limits(inputs));
    steps.extend(inputs.processors.clone().map(Step::Processors));
    steps.extend([Step::NewSession, Step::SealPrivileges]);
    let (version, rules) = (inputs.landlock, inputs.rules.clone());
    steps.push(Step::Landlock { version, rules });
    if version >= LANDLOCK_KNOWS_PORTS {
        steps.push(Step::LandlockNetwork { version });
    }
    // Last: the filter refuses what the steps before needed.
    steps.push(Step::Seccomp { programs: inputs.filters.clone() });
    steps.push(Step::ServeConfined);
    steps
}

fn limits(inputs: &Inputs<'_>) -> Vec<Step> {
    let policy = inputs.policy;
    let mut limits = kept_small(policy, inputs.machine);
    limits.push((Resource::FileSize, limit(policy, Limit::Disk) << 20));
    if !inputs.memory_held {
        let memory = limit(policy, Limit::Memory) << 20;
        limits.push((Resource::Data, memory * 2 + (256 << 20)));
    }
    if !inputs.pids_held {
        let most = limit(policy, Limit::Pids) + 1;
        limits.push((
            Resource::Processes,
            match inputs.first_id {
                Some(_) => most,
                // Counted over everything that the user runs, so that it can only be a backstop for
                // what grows faster than it is looked at.
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

    fn names(first_id: Option<u32>) -> Vec<&'static str> {
        let policy = Policy::parse_str("p", "{}", Path::new("/")).unwrap();
        let inputs = Inputs {
            policy: &policy,
            machine: &Machine::look(),
            landlock: 6,
            first_id,
            other_tasks: 0,
            rules: Vec::new(),
            tasks: vec![PathBuf::from("/sys/fs/cgroup/x/tasks")],
            memory_held: false,
            pids_held: false,
            processors: Some(vec![0]),
            filters: Vec::new(),
        };
        let mut names: Vec<_> = inside(&inputs).iter().map(Step::name).collect();
        names.dedup();
        names
    }

    #[test]
    fn order_keeps_every_step_of_the_reduced_wall_safe() {
        let after_ids = [
            "limit",
            "processors",
            "new_session",
            "seal_privileges",
            "landlock",
            "landlock_network",
            "seccomp",
        ];
        let expected = |ids: &[&'static str]| {
            [&["enter_cgroup", "adopt_orphans"], ids, &after_ids, &["serve_confined"]].concat()
        };
        assert_eq!(names(Some(0x7000_0000)), expected(&["become_user"]));
        assert_eq!(names(None), expected(&[]));
    }

    #[test]
    fn everybody_is_reached_by_the_ids_or_by_the_domain_and_the_directory_goes_last() {
        let begin = |first| beginning(first, None, &Removal::default(), PathBuf::from("/tmp/x"));
        let family = |first| begin(first).birth.family;
        assert_eq!(family(Some(0x7000_0000)), Family::Descendants(Reach::User(0x7000_03e8)));
        assert_eq!(family(None), Family::Descendants(Reach::Domain));
        let directory = PathBuf::from("/tmp/x");
        assert_eq!(begin(None).after, [AfterStep::RemoveTree { directory }]);
    }
}
