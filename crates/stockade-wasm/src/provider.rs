//! The WebAssembly wall as a provider.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use stockade_policy::{Isolation, WORKSPACE};
use stockade_provider::{
    Error, Language, Probe, ProgramKinds, Provider, ProviderName, Root, Sandbox, SandboxRequest,
    ToolAccess, WallFacts,
};

use crate::abilities::abilities;
use crate::error::{WasmError, obstacle};
use crate::execution::Instances;
use crate::files::{Fault, Tree};
use crate::limits::Budgets;
use crate::machine::Machine;
use crate::mounts::Mounts;
use crate::sandbox::WasmSandbox;
use crate::template::{Template, look};

/// The languages of the component.
const LANGUAGES: [Language; 1] = [Language::Python];

/// Directories that every sandbox has to itself.
const SCRATCH: [&str; 2] = ["/tmp", "/var/tmp"];

/// CPython as a WebAssembly component.
#[derive(Clone, Copy, Debug, Default)]
pub struct WasmProvider;

impl WasmProvider {
    /// The wall's name.
    pub const NAME: ProviderName = ProviderName::new("wasm");

    /// Creates the provider without loading the component.
    pub fn new() -> WasmProvider {
        WasmProvider
    }
}

impl Provider for WasmProvider {
    fn name(&self) -> ProviderName {
        WasmProvider::NAME
    }

    fn facts(&self, _: Probe) -> BoxFuture<'_, WallFacts> {
        Box::pin(async {
            let found = blocking(look).await;
            WallFacts {
                provider: WasmProvider::NAME,
                isolation: Isolation::Process,
                unusable: found.err().map(|error| obstacle(&error)),
                programs: ProgramKinds {
                    languages: &LANGUAGES,
                    contexts: true,
                    ..ProgramKinds::NONE
                },
                abilities: abilities(),
            }
        })
    }

    fn prepare(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async {
            blocking(Template::get).await?;
            Ok(())
        })
    }

    fn create<'a>(
        &'a self,
        request: &'a SandboxRequest,
    ) -> BoxFuture<'a, Result<Box<dyn Sandbox>, Error>> {
        Box::pin(async {
            let request = request.clone();
            let sandbox = blocking(move || build(&request)).await?;
            Ok(Box::new(sandbox) as Box<dyn Sandbox>)
        })
    }
}

fn build(request: &SandboxRequest) -> Result<WasmSandbox, WasmError> {
    let template = Template::get()?;
    sandbox_of(request, Arc::new(Instances(template)))
}

/// A sandbox with the files, limits and requests of this wall, whose programs a machine runs.
pub fn sandbox(
    request: &SandboxRequest,
    machine: Arc<dyn Machine>,
) -> Result<Box<dyn Sandbox>, Error> {
    Ok(Box::new(sandbox_of(request, machine)?))
}

fn sandbox_of(
    request: &SandboxRequest,
    machine: Arc<dyn Machine>,
) -> Result<WasmSandbox, WasmError> {
    if request.root != Root::Standard {
        return Err(WasmError::Root);
    }
    let mounts = Mounts::of(request)?;
    let budgets = Arc::new(Budgets::of(&request.policy));
    let tree = tree(request, &mounts, budgets).map_err(|fault| match fault {
        Fault::Full => WasmError::ToolFiles,
        _ => WasmError::Layout,
    })?;
    let gateway = (request.gateway.clone(), request.tools.is_some());
    Ok(WasmSandbox::new(machine, Arc::clone(&request.policy), (tree, mounts), gateway))
}

/// The files that a sandbox starts with.
fn tree(request: &SandboxRequest, mounts: &Mounts, budgets: Arc<Budgets>) -> Result<Tree, Fault> {
    let mut writable = SCRATCH.to_vec();
    let has_scratch_workspace =
        request.policy.workspace.value == stockade_policy::Workspace::Scratch;
    if has_scratch_workspace && !mounts.has_workspace() {
        writable.push(WORKSPACE);
    }
    // A mount there takes the place of a directory of the sandbox.
    writable.retain(|path| mounts.above(path).is_none());
    let tree = Tree::new(budgets, &writable)?;
    tree.add_mount_point(WORKSPACE)?;
    for mount in &mounts.directories {
        tree.add_mount_point(&mount.guest)?;
    }
    for (guest, content) in &mounts.files {
        tree.add_file(guest, content)?;
    }
    for (path, content) in request.tools.iter().flat_map(|access| &access.files) {
        tree.add_file(&format!("{}/{path}", ToolAccess::DIRECTORY), content)?;
    }
    Ok(tree)
}

/// Runs blocking work on another thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, WasmError> + Send + 'static,
) -> Result<T, WasmError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(WasmError::Thread { source: std::io::Error::other(error) }),
    }
}
