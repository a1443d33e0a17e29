//! The native wall as a provider.

use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_core::future::BoxFuture;
use stockade_hostfiles::{
    look, pinned_directories, program_filters, refuse_changeable, refuse_system_sockets,
    refuse_uncoverable, shown,
};
use stockade_launcher::TreeKind;
use stockade_policy::{Isolation, Limit, Policy};
use stockade_provider::{
    EntryProgram, Error, Language, Probe, ProgramKinds, Provider, ProviderName, Root, Sandbox,
    SandboxRequest, WallFacts,
};

use crate::abilities::abilities;
use crate::commands::Commands;
use crate::error::StartError;
use crate::facts_cache::{FactsCache, blocking};
use crate::filters::{filters, memory_holder, program_watch};
use crate::host_files::{Base, HostFiles, accounts};
use crate::id_range::IdRange;
use crate::machine::Machine;
use crate::plan::{AUTHORITIES, Egress, Inputs, USER, plan, tool_command};
use crate::proc_view::proc_files;
use crate::programs::{Hidden, Listed};
use crate::start::{EXECUTIONS, Grouped, HostProcess, Prepared, encoded, make_group, start};
use crate::sub_ids;
use crate::tools;
use crate::try_out::{Tried, try_out};
use stockade_cgroup::{Controller, GroupName, Layout, sweep_parents};
use stockade_image::{Denials, reported};
use stockade_interpreters::{
    Bind, Interpreter, OwnPrograms, ProgramSetup, Surroundings, find, host_loopback,
    own_programs_of, surrounding_python, threads,
};
use stockade_wire::PROXY;

/// Namespaces, cgroups, Landlock and seccomp on the host's own kernel.
#[derive(Clone)]
pub struct NativeProvider {
    user: HostProcess,
    executions: usize,
    devices: Vec<PathBuf>,
    surroundings: Arc<Surroundings>,
    cache: Arc<FactsCache>,
}

impl NativeProvider {
    /// The wall's name.
    pub const NAME: ProviderName = ProviderName::new("native");

    /// Creates the provider without inspecting the host. The surroundings decide which host
    /// interpreter programs use.
    pub fn new(user: HostProcess, surroundings: Surroundings) -> NativeProvider {
        let (surroundings, cache) = (Arc::new(surroundings), Arc::default());
        NativeProvider { user, executions: EXECUTIONS, devices: Vec::new(), surroundings, cache }
    }

    /// Shows a device of the host in every sandbox, at its own path in `/dev`. Its permissions on
    /// the host decide whether programs can open it.
    #[must_use]
    pub fn with_device(mut self, path: impl Into<PathBuf>) -> NativeProvider {
        self.devices.push(path.into());
        self
    }

    /// Sets how many executions may run at once in one sandbox.
    #[must_use]
    pub fn with_executions(mut self, most: usize) -> NativeProvider {
        self.executions = most;
        self
    }

    /// Plans a sandbox and allocates its resources, and starts nothing.
    fn prepare(&self, request: &SandboxRequest, layout: &Layout) -> Result<Prepared, StartError> {
        let machine = &*self.cache.machine();
        let policy = &*request.policy;
        check_open_files(policy, machine)?;
        let tools = tools::files(request)?;
        let denials = has_stubs(request)?.then(Arc::<Denials>::default);
        let interpreter = interpreter(request, &self.surroundings)?;
        let own = own_programs(request, &self.surroundings, interpreter.as_ref());
        let files = host_files(request, machine, interpreter.as_ref(), own.as_ref())?;
        #[cfg(feature = "weaken")]
        let files = HostFiles { base: crate::weaken::base(files.base), ..files };
        let range = machine.is_root().then(IdRange::claim).transpose()?;
        let Grouped { group, leaves, inputs: cgroup, mut descriptors } = make_group(
            policy,
            layout,
            &GroupName::new()?,
            self.devices.first().map(PathBuf::as_path),
        )?;
        let (memory_held, egress) = (cgroup.memory_held, egress(request));
        let plan = plan(&Inputs {
            policy,
            machine,
            files: &files,
            devices: &self.devices,
            ids: ids(&request.root)?,
            first_id: range.as_ref().map(|range| range.first),
            sub_ids: machine.sub_ids.filter(|_| sub_ids::suit(&files)),
            egress,
            cgroup,
            filters: filters(policy, memory_holder(memory_held))?,
            program_watch: policy.commands.as_ref().map(|_| program_watch()).transpose()?,
            tools,
            has_stubs: denials.is_some(),
            authorities: request.authorities.clone(),
            proc_files: proc_files(policy)?,
        });
        #[cfg(feature = "weaken")]
        let plan = crate::weaken::plan(plan);
        descriptors.extend(range.map(IdRange::into_lock));
        let present = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        let setup = ProgramSetup {
            interpreter,
            proxy: (egress == Egress::Gateway).then_some(PROXY),
            host_loopback: host_loopback(policy),
            threads: Some(threads(policy, present)),
            tools: request.tools.as_ref().map(|access| access.environment.clone()),
            authorities: request.authorities.as_ref().map(|_| AUTHORITIES.to_owned()),
            more_variables: rustup_home(own.as_ref()),
            more_path: more_path(request, &self.surroundings, own.map(|own| own.directory)),
            ..ProgramSetup::default()
        };
        Ok(Prepared {
            plan: encoded(&plan)?,
            descriptors,
            gateway: match &denials {
                Some(denials) => Some(reported(denials, request.gateway.clone())),
                None => request.gateway.clone(),
            },
            denials,
            executions: self.executions,
            listed: listed(request, files),
            group,
            leaves: leaves.map(Arc::new),
            policy: request.policy.clone(),
            setup: Arc::new(setup),
            filters: program_filters(policy, machine.kernel)?,
            scratch: None,
            memory_held,
            cpu_held: layout.has(Controller::Cpu),
            pids_held: true,
            has_terminals: true,
            has_loopback: true,
            user: self.user,
        })
    }
}

impl Provider for NativeProvider {
    fn name(&self) -> ProviderName {
        NativeProvider::NAME
    }

    fn facts(&self, probe: Probe) -> BoxFuture<'_, WallFacts> {
        Box::pin(async move {
            let (tried, cache) = match probe {
                Probe::Quick => (Tried::default(), Arc::clone(&self.cache)),
                Probe::Thorough => (try_out().await, Arc::default()),
            };
            blocking(move || {
                let layout = match probe {
                    Probe::Quick => cache.layout(),
                    Probe::Thorough => Arc::new(Layout::foresee()),
                };
                WallFacts {
                    provider: NativeProvider::NAME,
                    isolation: Isolation::Process,
                    programs: ProgramKinds::ALL,
                    abilities: abilities(&cache.machine(), &layout, tried.no_egress.as_ref()),
                    unusable: tried.unusable,
                }
            })
            .await
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
                sweep_parents(&layout);
                provider.prepare(&request, &layout)
            };
            Ok(Box::new(start(prepare).await?) as Box<dyn Sandbox>)
        })
    }
}

impl NativeProvider {
    /// Builds and ends a sandbox without changing the host: it enables no cgroup controller and
    /// removes no leftovers.
    pub(crate) async fn start_for_trial(&self, request: &SandboxRequest) -> Result<(), StartError> {
        let (provider, request) = (self.clone(), request.clone());
        let prepare = move || provider.prepare(&request, &Layout::as_it_is());
        start(prepare).await?.finish().await
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

/// Whether stubs of the root report the commands that it denies. With a list of commands, the list
/// denies them.
fn has_stubs(request: &SandboxRequest) -> Result<bool, StartError> {
    let is_hardened = matches!(&request.root, Root::Image(image) if image.is_hardened);
    let has_stubs = is_hardened && request.policy.commands.is_none();
    if has_stubs && !tools::is_place_free(&request.policy) {
        return Err(StartError::Unsupported {
            what: "a mount or a hidden path at /run/stockade",
            reason: "stubs of the hardened image report denied commands through that directory",
            remedy: "choose another path inside",
        });
    }
    Ok(has_stubs)
}

/// Whether the request needs egress to the network.
fn egress(request: &SandboxRequest) -> Egress {
    match &request.gateway {
        Some(gateway) if gateway.carries().network => Egress::Gateway,
        Some(_) | None => Egress::None,
    }
}

/// The interpreter of [`entry_interpreter`], or the caller's own Python for every other program.
fn interpreter(
    request: &SandboxRequest,
    surroundings: &Surroundings,
) -> Result<Option<Interpreter>, StartError> {
    // A list of commands is exact: it shows no other environment.
    let is_open = request.policy.commands.is_none() && matches!(request.root, Root::Standard);
    if is_open && matches!(language(&request.entry), None | Some(Language::Bash)) {
        let python = surrounding_python(surroundings)?;
        if python.is_some() {
            return Ok(python);
        }
    }
    entry_interpreter(request, surroundings)
}

/// The host's interpreter for the program to start, unless the root is a directory.
pub(crate) fn entry_interpreter(
    request: &SandboxRequest,
    surroundings: &Surroundings,
) -> Result<Option<Interpreter>, StartError> {
    match &request.root {
        Root::Standard => {}
        Root::Directory(_) => return Ok(None),
        Root::Image(image) if image.directory.is_some() => return Ok(None),
        Root::Image(_) => return Err(NO_IMAGES),
    }
    match language(&request.entry) {
        Some(language) => Ok(Some(find(language, surroundings)?)),
        None => Ok(None),
    }
}

/// The language of what is started first.
fn language(entry: &EntryProgram) -> Option<Language> {
    match entry {
        EntryProgram::Interpreter(language) => Some(*language),
        EntryProgram::Program(name) => language_of(name),
    }
}

/// The caller's own directory with the program to start, such as `~/.local/bin`, unless the policy
/// says what is in it or lists the programs.
fn own_programs(
    request: &SandboxRequest,
    surroundings: &Surroundings,
    interpreter: Option<&Interpreter>,
) -> Option<OwnPrograms> {
    let EntryProgram::Program(name) = &request.entry else { return None };
    let is_open = request.policy.commands.is_none() && matches!(request.root, Root::Standard);
    let own = own_programs_of(name, surroundings).filter(|_| is_open)?;
    let meets = |place: &Path| {
        let mut shown = iter::once(&own.directory).chain(&own.rustup);
        shown.any(|shown| place.starts_with(shown) || shown.starts_with(place))
    };
    let binds = interpreter.iter().flat_map(|found| &found.binds);
    let mut taken = binds.map(|bind| bind.guest.as_path());
    let policy = &request.policy;
    let mut guests = policy.mounts.iter().map(|mount| Path::new(mount.guest.as_str()));
    let is_taken = taken.any(meets) || guests.any(meets);
    let is_hidden = policy.hide.iter().any(|hide| meets(Path::new(hide.value.as_str())));
    (!is_taken && !is_hidden).then_some(own)
}

/// rustup's proxies look for toolchains in the home otherwise, which is another one inside.
fn rustup_home(own: Option<&OwnPrograms>) -> Vec<(String, String)> {
    let place = own.and_then(|own| own.rustup.as_ref()?.to_str());
    place.map(|place| ("RUSTUP_HOME".to_owned(), place.to_owned())).into_iter().collect()
}

/// Directories of the caller's PATH that are visible inside at their own path: the one with the
/// program to start, and those that the policy mounts.
fn more_path(
    request: &SandboxRequest,
    surroundings: &Surroundings,
    own: Option<PathBuf>,
) -> Vec<String> {
    let is_mounted = |directory: &PathBuf| {
        request.policy.mounts.iter().any(|mount| {
            mount.host == Path::new(mount.guest.as_str()) && directory.starts_with(&mount.host)
        })
    };
    let path = surroundings.path.clone().unwrap_or_default();
    let mounted = std::env::split_paths(&path).filter(|it| it.is_absolute() && is_mounted(it));
    let mounted: Vec<PathBuf> = match &request.root {
        Root::Standard => mounted.collect(),
        Root::Directory(_) | Root::Image(_) => Vec::new(),
    };
    // An entry with a colon would be two.
    let plain = |it: PathBuf| it.into_os_string().into_string().ok().filter(|it| !it.contains(':'));
    own.into_iter().chain(mounted).filter_map(plain).collect()
}

/// The user and group of programs inside. Never root, although a library may ask for it.
fn ids(root: &Root) -> Result<(u32, u32), StartError> {
    match root.user() {
        Some((0, _) | (_, 0)) => Err(StartError::Unsupported {
            what: "a program that is root inside",
            reason: "no program behind this wall is root or in its group",
            remedy: "name another user of the image",
        }),
        Some(ids) => Ok(ids),
        None => Ok((USER, USER)),
    }
}

/// The error for an image as root.
const NO_IMAGES: StartError = StartError::Unsupported {
    what: "an image as root",
    reason: "this wall starts from files of the host, and the image is not unpacked here",
    remedy: "import it with `stockade image import FILE.tar`, or name a directory with --root",
};

/// The language of a program of which users may have their own version. Shells are always the
/// system's.
fn language_of(program: &str) -> Option<Language> {
    match program {
        "python3" | "python" => Some(Language::Python),
        "node" | "nodejs" | "npm" | "npx" => Some(Language::JavaScript),
        _ => None,
    }
}

/// The name of the requested interpreter in a `--root` directory.
fn asked(entry: &EntryProgram) -> Option<&'static str> {
    match entry {
        EntryProgram::Interpreter(language) => Some(language.programs()[0]),
        EntryProgram::Program(_) => None,
    }
}

fn host_files(
    request: &SandboxRequest,
    machine: &Machine,
    interpreter: Option<&Interpreter>,
    own_programs: Option<&OwnPrograms>,
) -> Result<HostFiles, StartError> {
    let policy = &*request.policy;
    let shown = shown(policy)?;
    refuse_changeable(&request.protected, &shown)?;
    let is_separable = |directory: &Path| machine.is_separable(directory);
    let pinned = pinned_directories(policy, &shown, &is_separable)?;
    let (search, mounts) = (machine.socket_search(), &machine.mounts);
    refuse_uncoverable(policy, &shown, search, mounts, &is_separable)?;
    let names = policy.commands.iter().flat_map(|list| &list.value).map(|name| &*name.value);
    if let Some(directory) = request.root.directory() {
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
        let base = match &request.root {
            Root::Image(_) => {
                Base::Image { directory: directory.to_owned(), own: accounts(directory) }
            }
            Root::Standard | Root::Directory(_) => Base::Directory(directory.to_owned()),
        };
        return Ok(HostFiles { base, shown, commands, pinned });
    }
    let (mut binds, links) = match interpreter {
        Some(interpreter) => (interpreter.binds.clone(), interpreter.links.clone()),
        None => (machine.system.clone(), machine.links.clone()),
    };
    let own =
        own_programs.into_iter().flat_map(|own| iter::once(&own.directory).chain(&own.rustup));
    binds.extend(own.map(|own| Bind { host: own.clone(), guest: own.clone() }));
    let mut kinds = Vec::with_capacity(binds.len());
    for bind in binds {
        let kind = look(&bind.host)?;
        if kind == TreeKind::Directory && !is_separable(&bind.host) {
            refuse_system_sockets(&bind.host, policy, search)?;
        }
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

/// The allowed executables, for the thread that records refused starts.
fn listed(request: &SandboxRequest, files: HostFiles) -> Option<Listed> {
    let rule = request.policy.commands.as_ref()?.basis.to_string();
    let hidden = match files.base {
        Base::System { .. } => Hidden::HostPrograms,
        Base::Directory(_) | Base::Image { .. } => Hidden::Nothing,
    };
    let mut executables = files.commands?.executables;
    executables.extend(request.tools.as_ref().map(|_| tool_command()));
    Some(Listed { executables, rule, hidden })
}
