//! An image of the engine before a sandbox starts from it: its id, its program and its users.

use bollard::models::{ContainerCreateBody, ImageInspect};
use bollard::query_parameters::{DownloadFromContainerOptionsBuilder, ListImagesOptionsBuilder};
use futures_util::StreamExt;
use stockade_image::{ImageConfig, ImageUser, Listed, user_in};

use crate::engine::Engine;
use crate::owner::Labels;
use crate::start::created;
use crate::{DockerError, DockerOptions, image};

/// The file with the users of an image.
const PASSWD: &str = "/etc/passwd";
/// The maximum size of that file, as an archive.
const MOST_BYTES: usize = 1 << 20;

/// An image of the engine.
#[derive(Clone, Debug)]
pub struct ImageLook {
    /// Its digest: a container that starts from it is not affected by a moved name.
    pub id: String,
    /// What it says about its own program.
    pub config: ImageConfig,
    /// The user that the caller asked for.
    pub user: Option<ImageUser>,
}

impl ImageLook {
    /// Asks the engine about an image and one of its users.
    pub async fn look(
        options: &DockerOptions,
        reference: &str,
        user: Option<&str>,
    ) -> Result<ImageLook, DockerError> {
        image::check(reference)?;
        let engine = Engine::connect(options).await?;
        let facts = engine.facts().await?;
        let found = image::inspect(&engine, reference).await?;
        let id = image::of(&found, &facts, reference)?.id;
        let user =
            match user {
                Some(wanted) => {
                    let passwd = passwd(&engine, &id).await?;
                    let user = user_in(&passwd, wanted);
                    Some(user.map_err(|source| DockerError::User {
                        image: reference.to_owned(),
                        source,
                    })?)
                }
                None => None,
            };
        Ok(ImageLook { id, config: config(&found), user })
    }
}

/// Every image of the engine that has a name.
pub async fn engine_images(options: &DockerOptions) -> Result<Vec<Listed>, DockerError> {
    let engine = Engine::connect(options).await?;
    let list = ListImagesOptionsBuilder::new().build();
    let found = engine.ask("list images", engine.docker.list_images(Some(list))).await?;
    let listed = found.into_iter().map(|image| Listed {
        id: image.id,
        // Without a name the engine has a placeholder.
        names: image.repo_tags.into_iter().filter(|name| is_name(name)).collect(),
        bytes: u64::try_from(image.size).unwrap_or(0),
        layers: None,
        created: Some(image.created),
    });
    Ok(listed.filter(|image| !image.names.is_empty()).collect())
}

fn is_name(name: &str) -> bool {
    !name.contains('<') && !name.starts_with(crate::trial_image::NAME)
}

fn config(found: &ImageInspect) -> ImageConfig {
    let settings = found.config.clone().unwrap_or_default();
    ImageConfig {
        entrypoint: settings.entrypoint.unwrap_or_default(),
        command: settings.cmd.unwrap_or_default(),
        environment: settings.env.unwrap_or_default(),
        working_directory: settings.working_dir.filter(|place| !place.is_empty()),
        user: settings.user.filter(|user| !user.is_empty()),
        created: None,
    }
}

/// The text of the image's file of users; empty if it has none. Reads it from a container that is
/// never started.
async fn passwd(engine: &Engine, id: &str) -> Result<String, DockerError> {
    let labels = Labels::new()?;
    let body = ContainerCreateBody {
        image: Some(id.to_owned()),
        entrypoint: Some(vec!["/never-started".to_owned()]),
        labels: Some(labels.labels),
        network_disabled: Some(true),
        ..ContainerCreateBody::default()
    };
    let container = created(engine, &labels.name, body).await?;
    let options = DownloadFromContainerOptionsBuilder::new().path(PASSWD).build();
    let archive = engine
        .ask("read the users of the image", async {
            let mut stream = engine.docker.download_from_container(&container.id, Some(options));
            let mut archive = Vec::new();
            while let Some(piece) = stream.next().await {
                match piece {
                    Ok(piece) if archive.len() + piece.len() <= MOST_BYTES => {
                        archive.extend_from_slice(&piece);
                    }
                    Ok(_) => break,
                    Err(bollard::errors::Error::DockerResponseServerError {
                        status_code: 404,
                        ..
                    }) => break,
                    Err(error) => return Err(error),
                }
            }
            Ok(archive)
        })
        .await;
    container.remove().await?;
    Ok(only_file(&archive?))
}

/// The text of the first file of an archive.
fn only_file(archive: &[u8]) -> String {
    let mut entries = stockade_archive::Entries::new(archive);
    let mut text = Vec::new();
    let entry = entries.next_entry().ok().flatten();
    if entry.is_some_and(|it| matches!(it.kind, stockade_archive::EntryKind::File { .. })) {
        // A file that is cut has fewer users.
        let _ = std::io::Read::read_to_end(&mut entries, &mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}
