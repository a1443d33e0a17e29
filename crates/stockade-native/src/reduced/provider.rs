//! The reduced wall as a provider.

use std::fs;
use std::os::fd::AsFd;
use std::sync::OnceLock;

use futures_core::future::BoxFuture;
use stockade_cgroup::{Controller, Group, GroupName, Layout, Unfinished, sweep_parents};
use stockade_policy::Isolation;
use stockade_provider::{
    Error, First, Obstacle, Probe, Provider, ProviderName, Sandbox, SandboxRequest, Started,
    WallFacts,
};
use stockade_seccomp::{Ids, MemoryHolder};

use crate::error::StartError;
use crate::filters::reduced_filters;
use crate::id_range::IdRange;
use crate::launch::Waiting;
use crate::launcher::User;
use crate::machine::Machine;
use crate::plan::{USER, WayOut};
use crate::provider::{cgroup_limits, check_open_files, interpreter};
use crate::rising::Rising;
use crate::sandbox::{Interior, Parts, Places};
use crate::try_out::obstacle;

use super::abilities::{abilities, unusable};
use super::files::files;
use super::plan::{Inputs, beginning, inside};
use super::scratch::{CODE, ScratchDirectory, TEMPORARY, sweep};

/// Landlock, seccomp and rlimits without any namespace.
#[derive(Default)]
pub struct ReducedProvider {
    user: User,
    machine: OnceLock<Machine>,
    layout: OnceLock<Layout>,
}

impl ReducedProvider {
    /// The wall's name.
    pub const NAME: ProviderName = ProviderName::new("reduced");

    /// Looks at nothing yet.
    pub fn new(user: User) -> ReducedProvider {
        ReducedProvider { user, ..ReducedProvider::default() }
    }

    fn machine(&self) -> &Machine {
        self.machine.get_or_init(Machine::look)
    }

    fn layout(&self) -> &Layout {
        self.layout.get_or_init(Layout::expect)
    }

    /// Removes what a dead Stockade left; a failure here is no reason not to run.
    fn sweep(&self) {
        sweep_parents(self.layout());
        sweep();
    }

    /// Whose ids a sandbox has: its own where root can give it some.
    fn ids(&self) -> Ids {
        match self.machine().is_root() && IdRange::are_all_mapped() {
            true => Ids::Own,
            false => Ids::Callers,
        }
    }

    /// Has a wall built, up to the point where it is waited for.
    async fn raise(&self, request: &SandboxRequest, layout: &Layout) -> Result<Rising, StartError> {
        let (machine, ids) = (self.machine(), self.ids());
        let policy = &*request.policy;
        check_open_files(policy, machine)?;
        if request.tools.is_some() {
            return Err(StartError::Unsupported {
                what: "tools",
                reason: "without a mount namespace a program could replace the socket they are \
                         called by",
                remedy: "remove tool_allowlist, or use a host with namespaces",
            });
        }
        if request.gateway.is_some() {
            return Err(StartError::Unsupported {
                what: "a way out",
                reason: "without a network namespace there is none that leads only to the gate",
                remedy: "remove what the policy says of the network, or use a host with namespaces",
            });
        }
        let interpreter = interpreter(request)?;
        let range = match ids {
            Ids::Own => Some(IdRange::claim()?),
            Ids::Callers => None,
        };
        let kept: Vec<_> = range.iter().map(IdRange::lock).collect();
        let first_id = range.as_ref().map(|range| range.first);
        let name = GroupName::new()?;
        let scratch = ScratchDirectory::make(&name, first_id.map(|first| first + USER))?;
        let files = files(request, machine, interpreter.as_ref(), ids, &scratch)?;
        let memory = match layout.has(Controller::Memory) {
            true => MemoryHolder::Cgroup,
            false => MemoryHolder::Watchdog,
        };
        let filters = reduced_filters(policy, machine.kernel, ids, memory)?;
        let limits = cgroup_limits(policy, layout);
        let unfinished = match layout.has(Controller::Kill) {
            true => Some(Unfinished::begin(layout, name.clone())?),
            // Cgroups cannot hold anything here.
            false => None,
        };
        let (seat, removal) = match &unfinished {
            Some(group) => (group.seat(), group.removal(layout)),
            None => Default::default(),
        };
        let beginning = beginning(first_id, seat, &removal, scratch.path.clone());
        let begun = Waiting::start()?.begin(&beginning, &kept)?;
        let group = unfinished.map(|group| group.finish(layout, &limits));
        let group = group.transpose()?;
        let tasks = group.as_ref().map(Group::tasks).transpose()?.unwrap_or_default();
        let pids_held = layout.has(Controller::Pids);
        let building = begun.build(None)?;
        let inside = inside(&Inputs {
            policy,
            machine,
            landlock: machine.landlock,
            first_id,
            other_tasks: other_tasks(machine.user),
            rules: files.rules,
            tasks: tasks.iter().map(|tasks| tasks.path.clone()).collect(),
            memory_held: layout.has(Controller::Memory),
            pids_held,
            filters,
            processors: building.processors(),
        });
        let beside: Vec<_> = tasks.iter().map(|tasks| tasks.file.as_fd()).collect();
        building.hand_over(&inside, &beside).await?;
        let text = |path: std::path::PathBuf| path.display().to_string();
        let places = Places {
            working_directory: text(files.working_directory),
            home: text(scratch.part(TEMPORARY)),
            code: text(scratch.part(CODE)),
        };
        let parts = Parts {
            listed: None,
            group,
            policy: request.policy.clone(),
            interior: Interior { interpreter, places, way_out: WayOut::None, tools: None },
            scratch: Some(scratch),
            memory_held: layout.has(Controller::Memory),
            cpu_held: layout.has(Controller::Cpu),
            pids_held: pids_held || ids == Ids::Own,
            user: self.user,
        };
        Ok(Rising { building, parts })
    }
}

/// Builds a wall around nothing, to see whether this host lets it, and changes nothing: what others
/// left is not removed.
fn try_out() -> Option<Obstacle> {
    let start = |request| -> BoxFuture<'static, Result<(), StartError>> {
        let provider = ReducedProvider::new(User::Stays);
        Box::pin(async move {
            provider.raise(&request, &Layout::as_it_is()).await?.stand().await?.finish().await
        })
    };
    crate::trial::build("isolation: reduced", start).err().map(obstacle)
}

impl Provider for ReducedProvider {
    fn name(&self) -> ProviderName {
        ReducedProvider::NAME
    }

    fn facts(&self, probe: Probe) -> WallFacts {
        let (machine, ids) = (self.machine(), self.ids());
        let known = unusable(machine, ids);
        let (abilities, unusable) = match probe {
            Probe::Quick => (abilities(machine, self.layout(), ids), known),
            Probe::Thorough => {
                (abilities(machine, &Layout::foresee(), ids), known.or_else(try_out))
            }
        };
        let isolation = Isolation::Reduced;
        WallFacts { provider: ReducedProvider::NAME, isolation, unusable, abilities }
    }

    fn create<'a>(
        &'a self,
        request: &'a SandboxRequest,
    ) -> BoxFuture<'a, Result<Box<dyn Sandbox>, Error>> {
        Box::pin(async {
            self.sweep();
            let rising = self.raise(request, self.layout()).await?;
            Ok(Box::new(rising.stand().await?) as Box<dyn Sandbox>)
        })
    }

    fn create_with<'a>(
        &'a self,
        request: &'a SandboxRequest,
        first: First<'a>,
    ) -> BoxFuture<'a, Result<Started, Error>> {
        Box::pin(async {
            self.sweep();
            self.raise(request, self.layout()).await?.stand_with(first).await
        })
    }
}

/// How many tasks a user has now, as far as they are seen.
fn other_tasks(user: u32) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(processes) = fs::read_dir("/proc") else { return 0 };
    let of_user = |entry: &fs::DirEntry| entry.metadata().is_ok_and(|found| found.uid() == user);
    let tasks = |entry: fs::DirEntry| fs::read_dir(entry.path().join("task")).ok();
    let counts = processes.flatten().filter(of_user).filter_map(tasks);
    counts.map(|tasks| tasks.count() as u64).sum()
}
