//! The container wall as a provider.

use std::sync::Arc;
use std::time::Instant;

use futures_core::future::BoxFuture;
use stockade_interpreters::{ProgramSetup, host_loopback, threads};
use stockade_policy::Isolation;
use stockade_provider::{
    Entry, Error, FACTS_AGE, ImageRoot, Language, Obstacle, Probe, ProgramKinds, Provider,
    ProviderName, Root, Sandbox, SandboxRequest, WallFacts,
};
use stockade_wire::PROXY;
use tokio::sync::Mutex;

use crate::abilities::abilities;
use crate::archive::archive;
use crate::engine::Engine;
use crate::files::files;
use crate::filters::filters;
use crate::image;
use crate::owner::{Labels, sweep};
use crate::plan::{Inputs, plan};
use crate::sandbox::DockerSandbox;
use crate::start::{MOST_START, Prepared, start};
use crate::trial::{Chosen, choose};
use crate::{DockerError, DockerOptions, EngineFacts};

/// Containers of a Docker engine.
#[derive(Clone)]
pub struct DockerProvider {
    options: Arc<DockerOptions>,
    /// The engine, and when it was last asked to describe itself.
    found: Arc<Mutex<Option<(Instant, Found)>>>,
}

/// An engine that answers, with the runtime to use.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) engine: Engine,
    pub(crate) facts: Arc<EngineFacts>,
    pub(crate) chosen: Chosen,
}

impl DockerProvider {
    /// The wall's name.
    pub const NAME: ProviderName = ProviderName::new("docker");

    /// Creates the provider without connecting to an engine.
    pub fn new(options: DockerOptions) -> DockerProvider {
        DockerProvider { options: Arc::new(options), found: Arc::default() }
    }

    /// The engine with its facts, which are at most [`FACTS_AGE`] old.
    async fn find(&self, probe: Probe) -> Result<Found, DockerError> {
        let mut found = self.found.lock().await;
        match &*found {
            Some((at, found)) if at.elapsed() < FACTS_AGE && probe == Probe::Quick => {
                return Ok(found.clone());
            }
            _ => {}
        }
        let engine = Engine::connect(&self.options).await?;
        let facts = Arc::new(engine.facts().await?);
        let chosen = choose(&engine, &facts, &self.options, probe).await?;
        let new = Found { engine, facts, chosen };
        *found = Some((Instant::now(), new.clone()));
        Ok(new)
    }

    /// Whether the engine has an image that a sandbox can start from. The error is why it cannot
    /// tell.
    pub async fn has_image(&self, image: &str) -> Result<bool, Obstacle> {
        self.find_image(image).await.map_err(DockerError::into_obstacle)
    }

    async fn find_image(&self, image: &str) -> Result<bool, DockerError> {
        let root = Root::Image(ImageRoot::named(image));
        let reference = image::reference(&root, &Entry::Interpreter(Language::Python))?;
        let engine = Engine::connect(&self.options).await?;
        let facts = engine.facts().await?;
        match image::find(&engine, &facts, &reference).await {
            Ok(_) => Ok(true),
            Err(DockerError::NoImage { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn build(&self, request: &SandboxRequest) -> Result<DockerSandbox, DockerError> {
        let Found { engine, facts, chosen } = self.find(Probe::Quick).await?;
        let reference = image::reference(&request.root, &request.entry)?;
        let image = image::find(&engine, &facts, &reference).await?;
        let (asked, known) = (request.clone(), Arc::clone(&facts));
        let kernel = chosen.kernel_numbers(&facts);
        let (files, filters) = blocking(move || {
            let caller = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
            Ok::<_, DockerError>((files(&asked, &known, caller)?, filters(&asked.policy, kernel)?))
        })
        .await?;
        let labels = Labels::new()?;
        let has_network = request.gateway.as_ref().is_some_and(|it| it.carries().network);
        let configuration = plan(&Inputs {
            policy: &request.policy,
            facts: &facts,
            runtime: chosen.runtime,
            image: &image,
            files: &files,
            has_network,
            has_tools: request.tools.is_some(),
            labels: &labels.labels,
            seccomp: &filters.engine,
        });
        let prepared = Prepared {
            name: labels.name,
            configuration,
            runtime: chosen.runtime,
            archive: archive(request.tools.as_ref())?,
            filters: filters.programs,
            gateway: request.gateway.clone(),
            engine_release: facts.kernel.clone(),
            most_start: MOST_START,
        };
        let (started, ()) = tokio::join!(start(&engine, prepared), sweep(&engine));
        let setup = ProgramSetup {
            proxy: has_network.then_some(PROXY),
            host_loopback: host_loopback(&request.policy),
            // The engine's machine may have more processors than this one.
            threads: Some(threads(&request.policy, u64::MAX)),
            tools: request.tools.as_ref().map(|access| access.environment.clone()),
            ..ProgramSetup::default()
        };
        let policy = Arc::clone(&request.policy);
        Ok(DockerSandbox::new(started?, setup, policy, filters.refused_call))
    }
}

impl Provider for DockerProvider {
    fn name(&self) -> ProviderName {
        DockerProvider::NAME
    }

    fn facts(&self, probe: Probe) -> BoxFuture<'_, WallFacts> {
        Box::pin(async move {
            match self.find(probe).await {
                Ok(Found { facts, chosen, .. }) => WallFacts {
                    provider: DockerProvider::NAME,
                    isolation: chosen.runtime.isolation(),
                    unusable: None,
                    programs: ProgramKinds::ALL,
                    abilities: abilities(&facts, &chosen),
                },
                Err(error) => WallFacts {
                    provider: DockerProvider::NAME,
                    isolation: Isolation::Container,
                    unusable: Some(error.into_obstacle()),
                    programs: ProgramKinds::ALL,
                    abilities: Default::default(),
                },
            }
        })
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

/// Runs blocking work on another thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DockerError> + Send + 'static,
) -> Result<T, DockerError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(DockerError::Prepare {
            doing: "look at the files of the policy",
            source: std::io::Error::other(error),
        }),
    }
}
