//! An image of the engine before a sandbox starts from it: its id, its program and its users.

use bollard::models::ImageInspect;
use bollard::query_parameters::ListImagesOptionsBuilder;
use stockade_image::{ImageConfig, ImageUser, Listed, Pull, UserWanted, own_user_in, user_in};
use stockade_provider::EntryProgram;

use crate::bundles::never_started;
use crate::engine::Engine;
use crate::pull::Progress;
use crate::{DockerError, DockerOptions, Hardened, image};

/// The file with the users of an image.
const PASSWD: &str = "/etc/passwd";
/// The maximum size of that file, as an archive.
const MOST_BYTES: usize = 1 << 20;

/// The image that a caller requests.
#[derive(Clone, Copy, Debug)]
pub struct ImageWanted<'w> {
    /// Its name; `None` is the default for `entry`.
    pub reference: Option<&'w str>,
    /// What will run first.
    pub entry: &'w EntryProgram,
    /// Whether the default must be the hardened image.
    pub hardened: Hardened,
    /// Whether the engine may download it.
    pub pull: Pull,
    /// The user of the image as which programs run.
    pub user: UserWanted<'w>,
}

/// An image of the engine.
#[derive(Clone, Debug)]
pub struct ImageLook {
    /// The name under which it was found.
    pub reference: String,
    /// Its digest: a container that starts from it is not affected by a moved name.
    pub id: String,
    /// Whether only the programs of the hardened image are in its PATH.
    pub is_hardened: bool,
    /// Its settings for its own program.
    pub config: ImageConfig,
    /// The user that the caller requested; `None` is the ordinary one.
    pub user: Option<ImageUser>,
}

impl ImageLook {
    /// Asks the engine about an image and one of its users.
    pub async fn look(
        options: &DockerOptions,
        wanted: ImageWanted<'_>,
        progress: Progress<'_>,
    ) -> Result<ImageLook, DockerError> {
        let ImageWanted { reference, entry, hardened, pull, user } = wanted;
        if let Some(reference) = reference {
            image::check(reference)?;
        }
        let engine = Engine::connect(options).await?;
        let chosen = image::choose(&engine, reference, entry, hardened, pull, progress).await?;
        let image::Chosen { reference, found } = chosen;
        let image = image::of(&found, &reference)?;
        let image::Image { id, is_hardened, volumes, .. } = image;
        let config = config(&found);
        let user = match (user, &config.user) {
            (UserWanted::Named(wanted), _) => {
                let passwd = passwd(&engine, &id, &volumes).await?;
                let user = user_in(&passwd, wanted);
                let refused = |source| DockerError::User { image: reference.clone(), source };
                Some(user.map_err(refused)?)
            }
            (UserWanted::OfImage, Some(own)) => {
                own_user_in(&passwd(&engine, &id, &volumes).await?, own)
            }
            (UserWanted::OfImage, None) | (UserWanted::Ordinary, _) => None,
        };
        Ok(ImageLook { reference, id, is_hardened, config, user })
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

/// An image's settings for its own program.
pub(crate) fn config(found: &ImageInspect) -> ImageConfig {
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
async fn passwd(engine: &Engine, id: &str, volumes: &[String]) -> Result<String, DockerError> {
    let container = never_started(engine, id, volumes).await?;
    let archive = container.download(PASSWD, MOST_BYTES).await;
    container.remove().await?;
    Ok(only_file(&archive?))
}

/// The text of the first file of an archive.
pub(crate) fn only_file(archive: &[u8]) -> String {
    let mut entries = stockade_archive::Entries::new(archive);
    let mut text = Vec::new();
    let entry = entries.next_entry().ok().flatten();
    if entry.is_some_and(|it| matches!(it.kind, stockade_archive::EntryKind::File { .. })) {
        // A file that is cut has fewer users.
        let _ = std::io::Read::read_to_end(&mut entries, &mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}
