//! The native wall as a provider.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use futures_core::future::BoxFuture;
use stockade_hostfiles::{look, pinned_directories, refuse_changeable, refuse_uncoverable, shown};
use stockade_policy::{Isolation, Limit, Policy};
use stockade_provider::{
    Entry, Error, Language, Probe, Provider, ProviderName, Root, Sandbox, SandboxRequest, WallFacts,
};

use crate::abilities::abilities;
use crate::commands::Commands;
use crate::error::StartError;
use crate::filters::{filters, memory_holder, program_filters, program_watch};
use crate::host_files::{Base, HostFiles};
use crate::id_range::IdRange;
use crate::machine::Machine;
use crate::plan::{Inputs, WayOut, plan, tool_command};
use crate::proc_view::proc_files;
use crate::programs::{Hidden, Listed};
use crate::sandbox::{Interior, Places};
use crate::start::{EXECUTIONS, Prepared, User, make_group, start};
use crate::sub_ids;
use crate::tools;
use crate::try_out::{Tried, try_out};
use stockade_cgroup::{Controller, GroupName, Layout, sweep_parents};
use stockade_interpreters::{Interpreter, find};

/// Namespaces, cgroups, Landlock and seccomp on the host's own kernel.
#[derive(Default)]
pub struct NativeProvider {
    user: User,
    executions: Option<usize>,
    machine: OnceLock<Machine>,
    layout: OnceLock<Layout>,
}

impl NativeProvider {
    /// The wall's name.
    pub const NAME: ProviderName = ProviderName::new("native");

    /// Looks at nothing yet.
    pub fn new(user: User) -> NativeProvider {
        NativeProvider { user, ..NativeProvider::default() }
    }

    /// The same with another number of executions that may run at once in one sandbox.
    #[must_use]
    pub fn with_executions(mut self, most: usize) -> NativeProvider {
        self.executions = Some(most);
        self
    }

    fn machine(&self) -> &Machine {
        self.machine.get_or_init(Machine::look)
    }

    /// The cgroups as they should be found; making a group shows whether they are.
    fn layout(&self) -> &Layout {
        self.layout.get_or_init(Layout::expect)
    }

    /// Decides and allocates everything of a sandbox, and starts nothing.
    fn prepare(&self, request: &SandboxRequest, layout: &Layout) -> Result<Prepared, StartError> {
        let machine = self.machine();
        let policy = &*request.policy;
        check_open_files(policy, machine)?;
        let tools = tools::files(request)?;
        let interpreter = interpreter(request)?;
        let files = host_files(request, machine, interpreter.as_ref())?;
        #[cfg(feature = "weaken")]
        let files = HostFiles { base: crate::weaken::base(files.base), ..files };
        let range = machine.is_root().then(IdRange::claim).transpose()?;
        let (group, cgroup, mut descriptors) = make_group(policy, layout, &GroupName::new()?)?;
        let (memory_held, way_out) = (cgroup.memory_held, way_out(request));
        let plan = plan(&Inputs {
            policy,
            machine,
            files: &files,
            first_id: range.as_ref().map(|range| range.first),
            sub_ids: machine.sub_ids.filter(|_| sub_ids::suit(&files)),
            way_out,
            cgroup,
            filters: filters(policy, memory_holder(memory_held))?,
            program_watch: policy.commands.as_ref().map(|_| program_watch()).transpose()?,
            tools,
            proc_files: proc_files(policy)?,
        });
        #[cfg(feature = "weaken")]
        let plan = crate::weaken::plan(plan);
        descriptors.extend(range.map(IdRange::into_lock));
        let interior = Interior {
            interpreter,
            places: Places::of_root(),
            way_out,
            tools: request.tools.as_ref().map(|door| door.environment.clone()),
            codes: AtomicU64::default(),
            filters: program_filters(policy, machine.kernel)?,
        };
        Ok(Prepared {
            plan,
            descriptors,
            gateway: request.gateway.clone(),
            executions: self.executions.unwrap_or(EXECUTIONS),
            listed: listed(request, files),
            group,
            policy: request.policy.clone(),
            interior,
            scratch: None,
            memory_held,
            cpu_held: layout.has(Controller::Cpu),
            pids_held: true,
            user: self.user,
        })
    }
}

impl Provider for NativeProvider {
    fn name(&self) -> ProviderName {
        NativeProvider::NAME
    }

    fn facts(&self, probe: Probe) -> WallFacts {
        let (abilities, unusable) = match probe {
            Probe::Quick => (abilities(self.machine(), self.layout(), None), None),
            Probe::Thorough => {
                let Tried { unusable, no_way_out } = try_out();
                let layout = Layout::foresee();
                (abilities(self.machine(), &layout, no_way_out.as_ref()), unusable)
            }
        };
        let isolation = Isolation::Process;
        WallFacts { provider: NativeProvider::NAME, isolation, unusable, abilities }
    }

    fn create<'a>(
        &'a self,
        request: &'a SandboxRequest,
    ) -> BoxFuture<'a, Result<Box<dyn Sandbox>, Error>> {
        Box::pin(async {
            sweep_parents(self.layout());
            let prepared = self.prepare(request, self.layout())?;
            Ok(Box::new(start(prepared).await?) as Box<dyn Sandbox>)
        })
    }
}

impl NativeProvider {
    /// Builds and ends a sandbox, and changes nothing: no controller is handed down for it, and
    /// nothing that others left is removed.
    pub(crate) async fn start_for_trial(&self, request: &SandboxRequest) -> Result<(), StartError> {
        let prepared = self.prepare(request, &Layout::as_it_is())?;
        start(prepared).await?.finish().await
    }
}

pub(crate) fn check_open_files(policy: &Policy, machine: &Machine) -> Result<(), StartError> {
    let asked = policy.limits.value(Limit::OpenFiles).unwrap_or(0);
    if asked > machine.open_files {
        let (key, most) = (Limit::OpenFiles.spec().key, machine.open_files);
        return Err(StartError::TooMuch { key, asked, most });
    }
    Ok(())
}

/// Whether connections to the network can leave.
fn way_out(request: &SandboxRequest) -> WayOut {
    match &request.gateway {
        Some(gateway) if gateway.carries().network => WayOut::Gateway,
        Some(_) | None => WayOut::None,
    }
}

/// The host's interpreter for what will be started, if it is one's.
pub(crate) fn interpreter(request: &SandboxRequest) -> Result<Option<Interpreter>, StartError> {
    if request.root != Root::Standard {
        return Ok(None);
    }
    let language = match &request.entry {
        Entry::Interpreter(language) => Some(*language),
        Entry::Program(name) => language_of(name),
    };
    match language {
        Some(language) => Ok(Some(find(language, &request.surroundings)?)),
        None => Ok(None),
    }
}

/// Programs that a person may have an own version of. Shells are the system's in any case.
fn language_of(program: &str) -> Option<Language> {
    match program {
        "python3" | "python" => Some(Language::Python),
        "node" | "nodejs" => Some(Language::JavaScript),
        _ => None,
    }
}

/// The interpreter that was asked for, by its name in a root of one's own.
fn asked(entry: &Entry) -> Option<&'static str> {
    match entry {
        Entry::Interpreter(language) => Some(language.programs()[0]),
        Entry::Program(_) => None,
    }
}

fn host_files(
    request: &SandboxRequest,
    machine: &Machine,
    interpreter: Option<&Interpreter>,
) -> Result<HostFiles, StartError> {
    let policy = &*request.policy;
    let shown = shown(policy)?;
    refuse_changeable(&request.protected, &shown)?;
    let stands_apart = |directory: &Path| machine.can_stand_apart(directory);
    let pinned = pinned_directories(policy, &shown, &stands_apart)?;
    refuse_uncoverable(policy, &shown, machine.socket_search(), &stands_apart)?;
    let names = policy.commands.iter().flat_map(|list| &list.value).map(|name| &*name.value);
    if let Root::Directory(directory) = &request.root {
        look(directory)?;
        let commands = match &policy.commands {
            Some(_) => {
                let names = asked(&request.entry).into_iter().chain(names);
                let commands = Commands::in_directory(names, directory)?;
                commands.check(directory, &shown)?;
                Some(commands)
            }
            None => None,
        };
        let base = Base::Directory(directory.clone());
        return Ok(HostFiles { base, shown, commands, pinned });
    }
    let (binds, links) = match interpreter {
        Some(interpreter) => (interpreter.binds.clone(), interpreter.links.clone()),
        None => (machine.system.clone(), machine.links.clone()),
    };
    let mut kinds = Vec::with_capacity(binds.len());
    for bind in binds {
        let kind = look(&bind.host)?;
        kinds.push((bind, kind));
    }
    if policy.commands.is_none() {
        let base = Base::System { binds: kinds, links };
        return Ok(HostFiles { base, shown, commands: None, pinned });
    }
    let commands = Commands::on_host(names, interpreter)?;
    commands.check(Path::new("/"), &shown)?;
    let (binds, links) = commands.narrow(kinds, links)?;
    let base = Base::System { binds, links };
    Ok(HostFiles { base, shown, commands: Some(commands), pinned })
}

/// What may be started, for whoever watches that.
fn listed(request: &SandboxRequest, files: HostFiles) -> Option<Listed> {
    let rule = request.policy.commands.as_ref()?.basis.to_string();
    let hidden = match files.base {
        Base::System { .. } => Hidden::HostPrograms,
        Base::Directory(_) => Hidden::Nothing,
    };
    let mut executables = files.commands?.executables;
    executables.extend(request.tools.as_ref().map(|_| tool_command()));
    Some(Listed { executables, rule, hidden })
}
