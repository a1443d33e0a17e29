//! Starts a container and opens the link to its guest.
//!
//! ```text
//! prepared ── create ──▶ created ── fill its volume, attach, start ──▶ started ── hello ──▶ linked
//!                           └── any failure or a deadline ──▶ removed
//! ```

use std::time::Duration;

use bollard::body_full;
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder,
    DownloadFromContainerOptionsBuilder, RemoveContainerOptionsBuilder,
    UploadToContainerOptionsBuilder,
};
use futures_util::StreamExt;
use std::sync::Arc;
use stockade_carrier::{Filter, Link, LinkSettings, Liveness};
use stockade_provider::{Gateway, ToolAccess};
use tokio::time::timeout;

use crate::DockerError;
use crate::Runtime;
use crate::engine::Engine;
use crate::events::Events;
use crate::runtime::Kernel;
use crate::stream::{Attached, Errors};
use crate::volumes::Volumes;

/// How long a runtime may take to start a container, and the guest to answer. gVisor takes about
/// half a second, Kata a few.
pub(crate) const MOST_START: Duration = Duration::from_secs(20);

/// The maximum number of concurrent executions in one sandbox.
const EXECUTIONS: usize = 64;

/// Everything that a start needs.
pub(crate) struct Prepared {
    pub(crate) name: String,
    pub(crate) configuration: ContainerCreateBody,
    pub(crate) runtime: Runtime,
    pub(crate) volumes: Volumes,
    pub(crate) archive: Vec<u8>,
    /// Further directories, each with its archive.
    pub(crate) bundles: Vec<(String, Vec<u8>)>,
    pub(crate) filters: Vec<Filter>,
    pub(crate) gateway: Option<Arc<dyn Gateway>>,
    /// The release of the engine's kernel.
    pub(crate) engine_release: String,
    pub(crate) most_start: Duration,
}

/// A container whose guest answers.
pub(crate) struct StartedContainer {
    pub(crate) container: Container,
    pub(crate) link: Link,
    pub(crate) events: Events,
    pub(crate) kernel: Kernel,
}

/// A container on the engine. Dropping it removes the container in the background; the engine also
/// removes it by itself when its input ends.
#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) engine: Engine,
    pub(crate) id: String,
    is_removed: bool,
}

impl Container {
    /// Removes the container with its volume, and kills what runs in it.
    pub(crate) async fn remove(mut self) -> Result<(), DockerError> {
        self.is_removed = true;
        remove(&self.engine, &self.id).await
    }
}

impl Container {
    /// The archive of a path; empty if nothing is there. One of more than `most` bytes is cut, but
    /// not before it has more than these.
    pub(crate) async fn download(&self, path: &str, most: usize) -> Result<Vec<u8>, DockerError> {
        let options = DownloadFromContainerOptionsBuilder::new().path(path).build();
        let docker = &self.engine.docker;
        let read = async {
            let mut stream = docker.download_from_container(&self.id, Some(options));
            let mut archive = Vec::new();
            while archive.len() <= most {
                let Some(piece) = stream.next().await else { break };
                match piece {
                    Ok(piece) => archive.extend_from_slice(&piece),
                    Err(bollard::errors::Error::DockerResponseServerError {
                        status_code: 404,
                        ..
                    }) => break,
                    Err(error) => return Err(error),
                }
            }
            Ok(archive)
        };
        self.engine.ask("read a file of the image", read).await
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if self.is_removed {
            return;
        }
        let (engine, id) = (self.engine.clone(), self.id.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { remove(&engine, &id).await });
        }
    }
}

async fn remove(engine: &Engine, id: &str) -> Result<(), DockerError> {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    engine
        .ask("remove a container", async {
            match engine.docker.remove_container(id, Some(options)).await {
                // Gone already, or being removed because its first process ended.
                Err(bollard::errors::Error::DockerResponseServerError {
                    status_code: 404 | 409,
                    ..
                }) => Ok(()),
                other => other,
            }
        })
        .await
}

/// Creates and starts a container, and waits until its guest answers on the expected kernel.
pub(crate) async fn start(
    engine: &Engine,
    prepared: Prepared,
) -> Result<StartedContainer, DockerError> {
    let events = Events::follow(engine, &prepared.name);
    let container = create(engine, &prepared).await?;
    match link(&container, &prepared).await {
        Ok((link, kernel)) => Ok(StartedContainer { container, link, events, kernel }),
        Err(error) => {
            // The first error is the one to report.
            let _ = container.remove().await;
            Err(error)
        }
    }
}

async fn create(engine: &Engine, prepared: &Prepared) -> Result<Container, DockerError> {
    created(engine, &prepared.name, prepared.configuration.clone()).await
}

/// Creates a container without starting it.
pub(crate) async fn created(
    engine: &Engine,
    name: &str,
    configuration: ContainerCreateBody,
) -> Result<Container, DockerError> {
    let options = CreateContainerOptionsBuilder::new().name(name).build();
    let creation = engine.docker.create_container(Some(options), configuration);
    let created = engine.ask_within(MOST_START, "create a container", creation).await;
    if let Err(DockerError::Down { .. } | DockerError::Slow { .. }) = created {
        // The engine may have created it without being able to report that.
        let _ = remove(engine, name).await;
    }
    Ok(Container { engine: engine.clone(), id: created?.id, is_removed: false })
}

async fn link(container: &Container, prepared: &Prepared) -> Result<(Link, Kernel), DockerError> {
    let (engine, id) = (&container.engine, container.id.as_str());
    let docker = &engine.docker;
    // Before the start, which creates the directories of volumes.
    prepared.volumes.check_links(engine, id).await?;
    let own = (ToolAccess::DIRECTORY, &prepared.archive);
    let bundles = prepared.bundles.iter().map(|(place, archive)| (place.as_str(), archive));
    for (place, archive) in std::iter::once(own).chain(bundles) {
        let options = UploadToContainerOptionsBuilder::new().path(place).build();
        let body = body_full(archive.clone().into());
        let upload = docker.upload_to_container(id, Some(options), body);
        engine.ask_within(MOST_START, "copy the guest into a container", upload).await?;
    }
    // Before the start, so that no byte is lost.
    let options = AttachContainerOptionsBuilder::new()
        .stdin(true)
        .stdout(true)
        .stderr(true)
        .stream(true)
        .build();
    let attachment = docker.attach_container(id, Some(options));
    let attached = engine.ask("attach to a container", attachment).await?;
    let (stream, errors) = Attached::new(attached);
    let starting = docker.start_container(id, None);
    let started = engine.ask_within(prepared.most_start, "start a container", starting).await;
    let runtime = prepared.runtime;
    started.map_err(|error| match error {
        DockerError::Engine { message, .. } => DockerError::Start { runtime, message },
        other => other,
    })?;
    let settings = LinkSettings { executions: EXECUTIONS, liveness: Liveness::PUMPED };
    let link = Link::open(stream, prepared.gateway.clone(), settings)?;
    let link = link.with_filters(prepared.filters.clone());
    let answered = timeout(prepared.most_start, hello(&link, errors.clone())).await;
    let kernel = match answered {
        Ok(Some(kernel)) => kernel,
        Ok(None) => {
            let message = guest_message(&errors.borrow());
            return Err(DockerError::Start { runtime, message });
        }
        Err(_) => {
            let (doing, limit) = ("start the guest in a container", prepared.most_start);
            return Err(DockerError::Slow { doing, limit });
        }
    };
    match runtime.provides(&kernel, &prepared.engine_release) {
        true => Ok((link, kernel)),
        false => Err(DockerError::WrongKernel { runtime, found: kernel.to_string() }),
    }
}

/// The kernel of a guest that answers; `None` if it ended.
async fn hello(link: &Link, mut errors: Errors) -> Option<Kernel> {
    link.hello().await.ok()?;
    let line = errors.wait_for(|kept| kept.contains('\n')).await.ok()?;
    Kernel::parse(&line)
}

/// The guest's own message, with control characters escaped.
fn guest_message(errors: &str) -> String {
    let said = errors.lines().rfind(|line| Kernel::parse(line).is_none());
    match said {
        Some(line) => line.chars().take(400).flat_map(char::escape_debug).collect(),
        None => "the guest ended before it answered".to_owned(),
    }
}
