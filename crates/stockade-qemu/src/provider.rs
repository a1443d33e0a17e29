//! The virtual machine wall as a provider.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use stockade_archive::tree::Target;
use stockade_bootimage::{BootImage, BootStore};
use stockade_interpreters::{ProgramSetup, host_loopback, threads};
use stockade_policy::Policy;
use stockade_provider::{
    EntryProgram, Error, Probe, ProgramKinds, Provider, ProviderName, Root, Sandbox,
    SandboxRequest, StartNote, WallFacts, java_store, java_store_path,
};
use stockade_wire::PROXY;

use crate::abilities::abilities;
use crate::accelerator::Choice;
use crate::command::Machine;
use crate::copies::copies;
use crate::disk::check_disk;
use crate::filters::filters;
use crate::initramfs::initramfs;
use crate::look::qemu;
use crate::plan::{Inputs, NOBODY, machine, mib, plan};
use crate::sandbox::QemuSandbox;
use crate::save::save;
use crate::saved::{Found, Key, SavedMachines, Unfinished};
use crate::start::{MOST_BOOT, Opening, Prepared, Started, resume, start};
use crate::{Accelerator, DEFAULT_IMAGE, QemuError, QemuOptions, jail, kvm, saved};

/// The certificates that programs must trust, if connections are opened.
const AUTHORITIES: &str = "/run/stockade/authorities.pem";
const AUTHORITIES_NAME: &str = "authorities.pem";

/// The trial of KVM, a machine to be saved, one that does not continue, and one that boots.
const MOST_START: Duration = Duration::from_secs(200);

/// Virtual machines of QEMU, in sandboxes of another wall.
#[derive(Clone)]
pub struct QemuProvider {
    options: Arc<QemuOptions>,
    jails: Jails,
}

/// The wall around QEMU.
#[derive(Clone)]
pub struct Jails {
    /// For a machine of TCG.
    pub plain: Arc<dyn Provider>,
    /// The same with [`crate::KVM`].
    pub with_kvm: Arc<dyn Provider>,
}

/// Everything that is decided before the jail is built.
struct Decided {
    prepared: Prepared,
    opening: Opening,
    /// The name of the machine's saved state.
    key: Key,
    setup: ProgramSetup,
    refused_call: Option<String>,
    image: BootImage,
    outputs: Vec<(String, Target)>,
}

impl QemuProvider {
    /// The wall's name.
    pub const NAME: ProviderName = ProviderName::new("qemu");

    /// Creates the provider without looking at the host. QEMU runs in sandboxes of `jails`.
    pub fn new(options: QemuOptions, jails: Jails) -> QemuProvider {
        QemuProvider { options: Arc::new(options), jails }
    }

    fn image(&self, name: &str) -> Result<BootImage, QemuError> {
        let machines = self.options.machines.as_ref().ok_or(QemuError::NoStore)?;
        Ok(BootStore::new(machines).find(name)?)
    }

    /// Plans a machine and reads everything that it starts from. Blocks.
    fn decide(
        &self,
        request: &SandboxRequest,
        accelerator: Accelerator,
    ) -> Result<Decided, QemuError> {
        let qemu = qemu()?;
        let policy = &*request.policy;
        let name = match &request.root {
            Root::Standard => DEFAULT_IMAGE,
            Root::Image(image) => image.reference.as_str(),
            Root::Directory(_) => {
                return Err(QemuError::Unsupported {
                    what: "--root",
                    reason: "a machine starts from an image with a kernel".to_owned(),
                    remedy: "build one with `stockade image build --vm NAME --from dir:PATH`, and \
                             name it with --image",
                });
            }
        };
        let image = self.image(name)?;
        let filters = filters(policy, numbers(&image.manifest.kernel))?;
        let copies = copies(policy, &request.protected)?;
        let has_network = request.gateway.as_ref().is_some_and(|it| it.carries().network);
        let random = |source| QemuError::Prepare { doing: "draw the machine's id", source };
        let machine_id = stockade_sys::random_bytes().map(u128::from_ne_bytes).map_err(random)?;
        let plan = plan(&Inputs {
            policy,
            user: request.root.user().unwrap_or(NOBODY),
            copies: &copies.list,
            has_network,
            has_tools: request.tools.is_some(),
            machine_id: &format!("{machine_id:032x}"),
        });
        let read = |source| QemuError::Prepare { doing: "read the image's modules", source };
        let modules = std::fs::read(image.modules()).map_err(read)?;
        let initramfs = initramfs(modules)?;
        let own_disk = match &request.root {
            Root::Image(image) => image.disk.as_deref(),
            Root::Standard | Root::Directory(_) => None,
        };
        own_disk.map(check_disk).transpose()?;
        let has_own_disk = own_disk.is_some();
        let machine = Machine { has_own_disk, ..machine(policy, &copies.list, accelerator) };
        let files = mib(initramfs.len() as u64);
        let jail = jail::policy(&image.directory, own_disk, &machine, files)
            .map_err(|message| QemuError::Jail { message, remedy: None })?;
        let setup = ProgramSetup {
            proxy: has_network.then_some(PROXY),
            host_loopback: host_loopback(policy),
            threads: Some(threads(policy, machine.cpus)),
            tools: request.tools.as_ref().map(|access| access.environment.clone()),
            authorities: request.authorities.as_ref().map(|_| AUTHORITIES.to_owned()),
            ..ProgramSetup::default()
        };
        let key = saved::key(&qemu, &image.manifest.id, &machine, &initramfs)
            .map_err(|source| QemuError::Prepare { doing: "look at QEMU's executable", source })?;
        let opening = Opening {
            plan,
            tools: shown_files(request),
            copies: copies.archives,
            filters: filters.programs,
            gateway: request.gateway.clone(),
        };
        let prepared = Prepared { policy: Arc::new(jail), machine, initramfs: Arc::new(initramfs) };
        let refused_call = filters.refused_call;
        let outputs = copies.outputs;
        Ok(Decided { prepared, opening, key, setup, refused_call, image, outputs })
    }

    async fn build(&self, request: &SandboxRequest) -> Result<QemuSandbox, QemuError> {
        let accelerator = self.choose(&request.root, Probe::Quick).await?.accelerator();
        let (provider, asked) = (self.clone(), request.clone());
        let decided = blocking(move || provider.decide(&asked, accelerator)).await?;
        let started = self.start(self.jail(accelerator), &decided).await?;
        let policy = Arc::clone(&request.policy);
        let Decided { setup, refused_call, image, outputs, .. } = decided;
        Ok(QemuSandbox::new(started, setup, policy, refused_call, image, outputs).await)
    }

    /// Continues the saved machine, which is saved first if it is missing; boots one if that is not
    /// possible.
    async fn start(&self, jail: &dyn Provider, decided: &Decided) -> Result<Started, QemuError> {
        let Decided { prepared, opening, key, image, .. } = decided;
        let machines = SavedMachines::of(&image.directory);
        // Only an image is known to be the same each time.
        let because = match self.options.always_boots || prepared.machine.has_own_disk {
            true => None,
            false => match self.saved(jail, &machines, decided).await? {
                Ok(state) => match resume(jail, prepared, state, opening).await {
                    Ok(started) => return Ok(started),
                    Err(error @ (QemuError::Boot { .. } | QemuError::Slow { .. })) => {
                        machines.discard(key);
                        Some(format!("the saved machine did not continue: {}", error.last_line()))
                    }
                    Err(error) => return Err(error),
                },
                Err(reason) => Some(reason),
            },
        };
        let started = start(jail, prepared, opening, MOST_BOOT).await?;
        Ok(Started { note: StartNote { because, ..started.note.clone() }, ..started })
    }

    /// Finds the saved machine, or saves one. The inner error is the reason why QEMU cannot continue
    /// a saved machine.
    async fn saved(
        &self,
        jail: &dyn Provider,
        machines: &SavedMachines,
        decided: &Decided,
    ) -> Result<Result<File, String>, QemuError> {
        let find = || {
            let (machines, key) = (machines.clone(), decided.key.clone());
            blocking(move || Ok(machines.find(&key)))
        };
        match find().await? {
            Found::State(state) => return Ok(Ok(state)),
            Found::Unusable(reason) => return Ok(Err(reason)),
            Found::Nothing => {}
        }
        let place = machines.clone();
        let begun = blocking(move || Ok(place.begin().and_then(with_file))).await?;
        let (unfinished, file) = match begun {
            Ok(begun) => begun,
            Err(reason) => return Ok(Err(reason)),
        };
        if let Err(reason) = save(jail, &decided.prepared, file).await? {
            return Ok(Err(reason));
        }
        let (place, key) = (machines.clone(), decided.key.clone());
        if let Err(reason) = blocking(move || Ok(place.keep(&key, unfinished))).await? {
            return Ok(Err(reason));
        }
        match find().await? {
            Found::State(state) => Ok(Ok(state)),
            Found::Unusable(reason) => Ok(Err(reason)),
            Found::Nothing => Ok(Err("another process removed the saved machine".to_owned())),
        }
    }

    fn jail(&self, accelerator: Accelerator) -> &dyn Provider {
        match accelerator {
            Accelerator::Kvm => &*self.jails.with_kvm,
            Accelerator::Tcg => &*self.jails.plain,
        }
    }

    /// What machines run with here. Starts a machine of this root unless an answer is kept.
    async fn choose(&self, root: &Root, probe: Probe) -> Result<Choice, QemuError> {
        let machines = self.options.machines.as_ref().ok_or(QemuError::NoStore)?;
        let Some(key) = kvm::key(&qemu()?) else { return Ok(kvm::no_device()) };
        if let (Probe::Quick, Some(choice)) = (probe, kvm::kept(machines, &key)) {
            return Ok(choice);
        }
        let (provider, root) = (self.clone(), root.clone());
        let decided = blocking(move || provider.decide(&trial(root)?, Accelerator::Kvm)).await?;
        let Decided { prepared, opening, .. } = decided;
        let jail = self.jail(Accelerator::Kvm);
        let choice = match start(jail, &prepared, &opening, kvm::MOST_TRIAL).await {
            Ok(Started { jail, .. }) => {
                jail.end().await.map_err(|error| QemuError::jail(&error))?;
                Choice::Kvm
            }
            Err(error) => kvm::failed(&error),
        };
        kvm::keep(machines, key, &choice);
        Ok(choice)
    }

    /// What machines run with, and the kernel of the default image, if everything is there.
    async fn usable(&self, probe: Probe) -> Result<(Choice, String), QemuError> {
        let jail = self.jails.plain.facts(probe).await;
        if let Some(obstacle) = jail.unusable {
            let remedy = Some(obstacle.remedy);
            return Err(QemuError::Jail { message: obstacle.reason, remedy });
        }
        let provider = self.clone();
        let kernel = blocking(move || {
            qemu()?;
            Ok(provider.image(DEFAULT_IMAGE)?.manifest.kernel)
        });
        let kernel = kernel.await?;
        Ok((self.choose(&Root::Standard, probe).await?, kernel))
    }
}

impl Provider for QemuProvider {
    fn name(&self) -> ProviderName {
        QemuProvider::NAME
    }

    fn facts(&self, probe: Probe) -> BoxFuture<'_, WallFacts> {
        Box::pin(async move {
            let usable = self.usable(probe).await;
            let (accelerator, kernel, unusable) = match usable {
                Ok((choice, kernel)) => (choice.accelerator(), kernel, None),
                // The weaker one: what could run is unknown.
                Err(error) => (Accelerator::Tcg, String::new(), Some(error.into_obstacle())),
            };
            WallFacts {
                provider: QemuProvider::NAME,
                isolation: accelerator.isolation(),
                unusable,
                programs: ProgramKinds::ALL,
                abilities: abilities(accelerator, &kernel),
            }
        })
    }

    fn most_start(&self) -> Duration {
        MOST_START
    }

    fn create<'a>(
        &'a self,
        request: &'a SandboxRequest,
    ) -> BoxFuture<'a, Result<Box<dyn Sandbox>, Error>> {
        Box::pin(async move {
            let built = self.build(request).await;
            Ok(Box::new(built?) as Box<dyn Sandbox>)
        })
    }
}

/// A small machine to try KVM with.
fn trial(root: Root) -> Result<SandboxRequest, QemuError> {
    let text = "defaults: { max_memory_mb: 64 }";
    let policy = Policy::parse_str("the trial of KVM", text, Path::new("/"));
    let policy = policy.map_err(|_| QemuError::Jail {
        message: "the policy of the trial is refused".to_owned(),
        remedy: None,
    })?;
    Ok(SandboxRequest {
        policy: Arc::new(policy),
        root,
        entry: EntryProgram::Program("true".to_owned()),
        protected: Vec::new(),
        gateway: None,
        tools: None,
        authorities: None,
    })
}

/// The files of the directory for tools, with the certificates that programs must trust.
fn shown_files(request: &SandboxRequest) -> Vec<(String, Vec<u8>)> {
    let tools = request.tools.iter().flat_map(|access| access.files.clone());
    let certificates = request.authorities.iter().flat_map(|content| {
        let of_java = (java_store_path(AUTHORITIES_NAME), java_store(content));
        [(AUTHORITIES_NAME.to_owned(), content.clone().into_bytes()), of_java]
    });
    tools.chain(certificates).collect()
}

fn with_file(unfinished: Unfinished) -> Result<(Unfinished, File), String> {
    let file = unfinished.file().map_err(|error| format!("no machine can be saved: {error}"))?;
    Ok((unfinished, file))
}

/// The major and minor version of a kernel.
fn numbers(release: &str) -> (u32, u32) {
    let mut fields = release.split(['.', '-']).map(|field| field.parse().unwrap_or(0));
    (fields.next().unwrap_or(0), fields.next().unwrap_or(0))
}

/// Runs blocking work on another thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, QemuError> + Send + 'static,
) -> Result<T, QemuError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(QemuError::Prepare {
            doing: "look at the image and the files of the policy",
            source: std::io::Error::other(error),
        }),
    }
}
