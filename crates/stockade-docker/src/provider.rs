//! The container wall as a provider.

use std::sync::Arc;
use std::time::Instant;

use futures_core::future::BoxFuture;
use stockade_image::{Denials, Pull, reported};
use stockade_interpreters::{ProgramSetup, host_loopback, threads};
use stockade_policy::Isolation;
use stockade_provider::{
    Error, FACTS_AGE, Obstacle, Probe, ProgramKinds, Provider, ProviderName, Sandbox,
    SandboxRequest, WallFacts,
};
use stockade_wire::PROXY;
use tokio::sync::Mutex;

use crate::abilities::{abilities, isolation};
use crate::archive::{AUTHORITIES, archive, bundle};
use crate::bundles::{self, Bundle};
use crate::engine::Engine;
use crate::files::files;
use crate::filters::filters;
use crate::image;
use crate::lent::lend;
use crate::owner::{Labels, sweep};
use crate::plan::{Inputs, plan};
use crate::sandbox::DockerSandbox;
use crate::start::{MOST_START, Prepared, start};
use crate::trial::{Chosen, choose};
use crate::volumes::Volumes;
use crate::{DockerError, DockerOptions, EngineFacts, HARDENED_IMAGE, Hardened, hardened};

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
        image::check(image)?;
        let engine = Engine::connect(&self.options).await?;
        image::check_engine(&engine.facts().await?, image)?;
        match image::inspect(&engine, image).await {
            Ok(found) if image == HARDENED_IMAGE => {
                hardened::check(&engine, &found, image).await.map(|()| true)
            }
            Ok(found) => image::of(&found, image).map(|_| true),
            Err(DockerError::NoImage { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn build(&self, request: &SandboxRequest) -> Result<DockerSandbox, DockerError> {
        let Found { engine, facts, chosen } = self.find(Probe::Quick).await?;
        let named = image::reference(&request.root)?;
        let (hardened, pull) = (Hardened::Preferred, Pull::Never);
        let chosen_image =
            image::choose(&engine, named, &request.entry, hardened, pull, &|_| {}).await?;
        image::check_engine(&facts, &chosen_image.reference)?;
        let image = image::of(&chosen_image.found, &chosen_image.reference)?;
        let (asked, known) = (request.clone(), Arc::clone(&facts));
        let kernel = chosen.kernel_numbers(&facts);
        let endpoint = engine.endpoint.clone();
        let (files, filters, lent) = blocking(move || {
            let caller = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
            let filters = filters(&asked.policy, kernel)?;
            let mut files = files(&asked, &known, caller)?;
            let lent = match known.remaps_ids {
                true => None,
                false => lend(&mut files, caller, &endpoint)?,
            };
            Ok::<_, DockerError>((files, filters, lent))
        })
        .await?;
        let volumes = Volumes::of(&image.volumes, &request.policy, &files)?;
        let authorities = request.authorities.as_deref();
        let bundles = match authorities {
            Some(_) => bundles::find(&engine, &image, &volumes).await?,
            None => Vec::new(),
        };
        let filled = |it: &Bundle| {
            Ok((it.directory.clone(), bundle(&it.name, authorities.unwrap_or_default())?))
        };
        let filled = bundles.iter().map(filled).collect::<Result<Vec<_>, DockerError>>()?;
        let labels = Labels::new()?;
        let has_network = request.gateway.as_ref().is_some_and(|it| it.carries().network);
        let configuration = plan(&Inputs {
            policy: &request.policy,
            facts: &facts,
            runtime: chosen.runtime,
            image: &image,
            volumes: &volumes,
            files: &files,
            has_network,
            has_tools: request.tools.is_some(),
            bundles: &bundles,
            labels: &labels.labels,
            seccomp: &filters.engine,
        });
        let denials = image.is_hardened.then(Arc::<Denials>::default);
        let prepared = Prepared {
            name: labels.name,
            configuration,
            runtime: chosen.runtime,
            volumes: volumes.clone(),
            archive: archive(request.tools.as_ref(), authorities)?,
            bundles: filled,
            filters: filters.programs,
            gateway: match &denials {
                Some(denials) => Some(reported(denials, request.gateway.clone())),
                None => request.gateway.clone(),
            },
            engine_release: facts.kernel.clone(),
            most_start: MOST_START,
        };
        let (started, ()) = tokio::join!(start(&engine, prepared), sweep(&engine));
        // The container has mounts of its own now.
        drop(lent);
        let policy = Arc::clone(&request.policy);
        let places = crate::plan::places(&policy, &volumes);
        let setup = ProgramSetup {
            proxy: has_network.then_some(PROXY),
            host_loopback: host_loopback(&request.policy),
            // The engine's machine may have more processors than this one.
            threads: Some(threads(&request.policy, u64::MAX)),
            tools: request.tools.as_ref().map(|access| access.environment.clone()),
            authorities: request.authorities.as_ref().map(|_| AUTHORITIES.to_owned()),
            search_path: image.search_path,
            ..ProgramSetup::default()
        };
        let started = started?;
        let ran = Chosen { runtime: chosen.runtime, kernel: Some(started.kernel.clone()) };
        let (isolation, refused_call) = (isolation(&facts, &ran), filters.refused_call);
        let sandbox =
            DockerSandbox::new(started, setup, policy, places, refused_call, isolation, denials);
        Ok(sandbox)
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
