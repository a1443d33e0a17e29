//! The reduced wall as a provider.

use std::fs;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use stockade_hostfiles::program_filters;
use stockade_interpreters::{Directories, ProgramSetup, Surroundings};
use stockade_policy::Isolation;
use stockade_provider::{
    Error, Obstacle, Probe, ProgramKinds, Provider, ProviderName, Sandbox, SandboxRequest,
    WallFacts,
};

use crate::error::StartError;
use crate::facts_cache::{FactsCache, blocking};
use crate::filters::{memory_holder, reduced_filters};
use crate::id_range::IdRange;
use crate::machine::Machine;
use crate::plan::USER;
use crate::provider::{check_open_files, entry_interpreter};
use crate::start::{EXECUTIONS, Grouped, HostProcess, Prepared, encoded, make_group, start};
use crate::try_out::obstacle;
use stockade_cgroup::{Controller, GroupName, Layout, sweep_parents};
use stockade_seccomp::Ids;

use super::abilities::{abilities, unusable};
use super::files::files;
use super::plan::{Inputs, plan};
use super::scratch::{CODE, ScratchDirectory, TEMPORARY, sweep};

/// Landlock, seccomp and rlimits without any namespace.
#[derive(Clone)]
pub struct ReducedProvider {
    user: HostProcess,
    surroundings: Arc<Surroundings>,
    cache: Arc<FactsCache>,
}

impl ReducedProvider {
    /// The wall's name.
    pub const NAME: ProviderName = ProviderName::new("reduced");

    /// Creates the provider without inspecting the host. The surroundings decide which host
    /// interpreter programs use.
    pub fn new(user: HostProcess, surroundings: Surroundings) -> ReducedProvider {
        ReducedProvider { user, surroundings: Arc::new(surroundings), cache: Arc::default() }
    }

    /// Plans a sandbox and allocates its resources, and starts nothing.
    fn prepare(&self, request: &SandboxRequest, layout: &Layout) -> Result<Prepared, StartError> {
        let machine = &*self.cache.machine();
        let ids = ids(machine);
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
                what: "egress",
                reason: "without a network namespace no network leads only to the gate",
                remedy: "remove what the policy says of the network, or use a host with namespaces",
            });
        }
        let interpreter = entry_interpreter(request, &self.surroundings)?;
        let range = match ids {
            Ids::Own => Some(IdRange::claim()?),
            Ids::Callers => None,
        };
        let first_id = range.as_ref().map(|range| range.first);
        let name = GroupName::new()?;
        let scratch = ScratchDirectory::make(&name, first_id.map(|first| first + USER))?;
        let files = files(request, machine, interpreter.as_ref(), ids, &scratch)?;
        let Grouped { group, leaves, inputs: cgroup, mut descriptors } =
            make_group(policy, layout, &name, None)?;
        let (memory_held, pids_held) = (cgroup.memory_held, cgroup.pids_held);
        let filters = reduced_filters(policy, ids, memory_holder(memory_held))?;
        let plan = plan(&Inputs {
            policy,
            machine,
            landlock: machine.landlock,
            first_id,
            other_tasks: other_tasks(machine.user),
            rules: files.rules,
            cgroup,
            scratch: scratch.path.clone(),
            filters,
        });
        descriptors.extend(range.map(IdRange::into_lock));
        let text = |path: std::path::PathBuf| path.display().to_string();
        let directories = Directories {
            working_directory: text(files.working_directory),
            home: text(scratch.part(TEMPORARY)),
            code: text(scratch.part(CODE)),
        };
        Ok(Prepared {
            plan: encoded(&plan)?,
            descriptors,
            gateway: None,
            denials: None,
            executions: EXECUTIONS,
            listed: None,
            group,
            leaves: leaves.map(Arc::new),
            policy: request.policy.clone(),
            setup: Arc::new(ProgramSetup { interpreter, directories, ..ProgramSetup::default() }),
            filters: program_filters(policy, machine.kernel)?,
            scratch: Some(scratch),
            memory_held,
            cpu_held: layout.has(Controller::Cpu),
            pids_held: pids_held || ids == Ids::Own,
            has_terminals: false,
            has_loopback: false,
            user: self.user,
        })
    }
}

/// Whether a sandbox has its own ids, which needs root.
fn ids(machine: &Machine) -> Ids {
    match machine.is_root() && IdRange::are_all_mapped() {
        true => Ids::Own,
        false => Ids::Callers,
    }
}

/// Builds an empty wall to find out whether this host allows it, without changing the host: it
/// removes no leftovers.
async fn try_out() -> Option<Obstacle> {
    let built = crate::trial::build("isolation: reduced", |request| async move {
        let provider = ReducedProvider::new(HostProcess::Continues, Surroundings::default());
        let prepare = move || provider.prepare(&request, &Layout::as_it_is());
        start(prepare).await?.finish().await
    });
    built.await.err().map(obstacle)
}

impl Provider for ReducedProvider {
    fn name(&self) -> ProviderName {
        ReducedProvider::NAME
    }

    fn facts(&self, probe: Probe) -> BoxFuture<'_, WallFacts> {
        let cache = Arc::clone(&self.cache);
        Box::pin(async move {
            let mut facts = blocking(move || {
                let machine = cache.machine();
                let layout = match probe {
                    Probe::Quick => cache.layout(),
                    Probe::Thorough => Arc::new(Layout::foresee()),
                };
                let ids = ids(&machine);
                WallFacts {
                    provider: ReducedProvider::NAME,
                    isolation: Isolation::Reduced,
                    programs: ProgramKinds::ALL,
                    unusable: unusable(&machine, ids),
                    abilities: abilities(&machine, &layout, ids),
                }
            })
            .await;
            if probe == Probe::Thorough && facts.unusable.is_none() {
                facts.unusable = try_out().await;
            }
            facts
        })
    }

    fn create<'a>(
        &'a self,
        request: &'a SandboxRequest,
    ) -> BoxFuture<'a, Result<Box<dyn Sandbox>, Error>> {
        let (provider, request) = (self.clone(), request.clone());
        Box::pin(async move {
            let prepare = move || {
                let layout = provider.cache.layout();
                // Leftovers of a dead Stockade; a failure here does not prevent the run.
                sweep_parents(&layout);
                sweep();
                provider.prepare(&request, &layout)
            };
            Ok(Box::new(start(prepare).await?) as Box<dyn Sandbox>)
        })
    }
}

/// How many tasks a user has now, as far as `/proc` shows them.
fn other_tasks(user: u32) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(processes) = fs::read_dir("/proc") else { return 0 };
    let of_user = |entry: &fs::DirEntry| entry.metadata().is_ok_and(|found| found.uid() == user);
    let tasks = |entry: fs::DirEntry| fs::read_dir(entry.path().join("task")).ok();
    let counts = processes.flatten().filter(of_user).filter_map(tasks);
    counts.map(|tasks| tasks.count() as u64).sum()
}
