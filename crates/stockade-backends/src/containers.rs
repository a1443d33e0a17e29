//! The container wall, if it is built in.

use std::sync::Arc;

use serde_json::Value;
#[cfg(feature = "docker")]
use serde_json::json;
use stockade_image::{ImageConfig, ImageUser, Listed, Pull, UserWanted};
#[cfg(not(feature = "docker"))]
use stockade_provider::ErrorKind;
use stockade_provider::{EntryProgram, Error, Obstacle, Provider};

use crate::azure::AzureChoice;

/// The values of `--runtime`.
pub const RUNTIMES: [&str; 5] = ["auto", "runc", "crun", "runsc", "kata-runtime"];

/// Which container engine and runtime to use, and which managed service.
#[derive(Clone, Debug, Default)]
pub struct ContainerChoice {
    /// The engine's address; otherwise the variables and contexts of the `docker` command decide.
    pub url: Option<String>,
    /// One of [`RUNTIMES`].
    pub runtime: Option<String>,
    /// The managed wall; without it that wall is not offered, because it sends code and files to
    /// another machine and costs money.
    pub azure: Option<AzureChoice>,
}

#[cfg(feature = "docker")]
impl ContainerChoice {
    pub(crate) fn provider(&self) -> Option<Arc<dyn Provider>> {
        Some(Arc::new(stockade_docker::DockerProvider::new(self.options())))
    }

    /// Whether the engine has an image that a sandbox can start from. The error is why the engine
    /// cannot tell.
    pub async fn has_image(&self, image: &str) -> Result<bool, Obstacle> {
        let provider = stockade_docker::DockerProvider::new(self.options());
        provider.has_image(image).await
    }

    fn options(&self) -> stockade_docker::DockerOptions {
        let found = stockade_docker::DockerOptions::from_variables(|name| std::env::var_os(name));
        let runtime = self.runtime.as_deref().and_then(|name| name.parse().ok());
        let runtime = runtime.unwrap_or(found.runtime);
        stockade_docker::DockerOptions { url: self.url.clone(), runtime, ..found }
    }
}

#[cfg(not(feature = "docker"))]
impl ContainerChoice {
    pub(crate) fn provider(&self) -> Option<Arc<dyn Provider>> {
        None
    }

    /// The container wall is not built in.
    pub async fn has_image(&self, _image: &str) -> Result<bool, Obstacle> {
        Err(Obstacle {
            reason: "the docker wall is not built into this version of Stockade".to_owned(),
            remedy: "build Stockade with the feature docker".to_owned(),
        })
    }
}

/// The image of the container engine that a caller wants.
#[derive(Clone, Copy, Debug)]
pub struct ContainerImageWanted<'w> {
    /// Its name; `None` is the default for `entry`.
    pub reference: Option<&'w str>,
    /// What will run first.
    pub entry: &'w EntryProgram,
    /// Whether the default must be the hardened image.
    pub requires_hardened: bool,
    /// Whether the engine may download it.
    pub pull: Pull,
    /// The user of the image as which programs run.
    pub user: UserWanted<'w>,
}

/// An image of the container engine, for a sandbox that will start from it.
#[derive(Clone, Debug)]
pub struct ContainerImage {
    /// The name under which it was found.
    pub reference: String,
    /// Its digest.
    pub id: String,
    /// Whether only the programs of the hardened image are in its PATH.
    pub is_hardened: bool,
    /// Its settings for its own program.
    pub config: ImageConfig,
    /// The user that the caller requested; `None` is the ordinary one.
    pub user: Option<ImageUser>,
}

/// How to build the hardened image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HardenedChoice {
    /// The image to build from; `None` is the default.
    pub base: Option<String>,
    /// The programs in its PATH; `None` is the default.
    pub allowed: Option<Vec<String>>,
    /// The name of the result; `None` is the default.
    pub name: Option<String>,
    /// Whether the base image may be downloaded.
    pub pull: Pull,
}

/// A hardened image that was built.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct HardenedBuilt {
    /// Its name.
    pub name: String,
    /// Its digest.
    pub id: String,
    /// The image that it was built from.
    pub base: String,
    /// The digest of that image.
    pub base_id: String,
    /// The programs in its PATH.
    pub allowed: Vec<String>,
}

/// Finds an image of the container engine and one of its users. `progress` receives lines about a
/// download.
#[cfg(feature = "docker")]
pub async fn container_image(
    choice: &ContainerChoice,
    wanted: ContainerImageWanted<'_>,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<ContainerImage, Error> {
    let ContainerImageWanted { reference, entry, requires_hardened, pull, user } = wanted;
    let hardened = match requires_hardened {
        true => stockade_docker::Hardened::Required,
        false => stockade_docker::Hardened::Preferred,
    };
    let wanted = stockade_docker::ImageWanted { reference, entry, hardened, pull, user };
    let look = stockade_docker::ImageLook::look(&choice.options(), wanted, progress).await?;
    let stockade_docker::ImageLook { reference, id, is_hardened, config, user } = look;
    Ok(ContainerImage { reference, id, is_hardened, config, user })
}

/// Builds the hardened image on the container engine. `progress` receives its steps.
#[cfg(feature = "docker")]
pub async fn build_hardened(
    engine: &ContainerChoice,
    choice: HardenedChoice,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<HardenedBuilt, Error> {
    let HardenedChoice { base, allowed, name, pull } = choice;
    let build = stockade_docker::HardenedBuild { base, allowed, name, pull };
    let built = build.build(&engine.options(), progress).await?;
    let stockade_docker::HardenedImage { name, id, base, base_id, allowed } = built;
    Ok(HardenedBuilt { name, id, base, base_id, allowed })
}

/// The container wall is not built in.
#[cfg(not(feature = "docker"))]
pub async fn container_image(
    _: &ContainerChoice,
    _: ContainerImageWanted<'_>,
    _: &(dyn Fn(&str) + Sync),
) -> Result<ContainerImage, Error> {
    let error = Error::new(ErrorKind::Invalid, "the docker wall is not built into this version");
    Err(error.with_remedy("import the image, and use --provider native"))
}

/// The container wall is not built in.
#[cfg(not(feature = "docker"))]
pub async fn build_hardened(
    _: &ContainerChoice,
    _: HardenedChoice,
    _: &(dyn Fn(&str) + Sync),
) -> Result<HardenedBuilt, Error> {
    let error = Error::new(ErrorKind::Invalid, "the docker wall is not built into this version");
    Err(error.with_remedy("build Stockade with the feature docker, or use `docker build`"))
}

/// The images of the container engine; `None` if it cannot be reached or is not built in.
#[cfg(feature = "docker")]
pub async fn container_images() -> Option<Vec<Listed>> {
    stockade_docker::engine_images(&ContainerChoice::default().options()).await.ok()
}

/// The container wall is not built in.
#[cfg(not(feature = "docker"))]
pub async fn container_images() -> Option<Vec<Listed>> {
    None
}

/// A container engine, for display.
#[derive(Clone, Debug)]
pub struct ContainerLook {
    /// Names and values; a line without a name continues the one before.
    pub lines: Vec<(String, String)>,
    /// The same as data.
    pub data: Value,
}

/// The container engine with each of its runtimes and the result of a trial start. `None` if the
/// container wall is not built in.
#[cfg(feature = "docker")]
pub async fn container_look() -> Option<ContainerLook> {
    let options = ContainerChoice::default().options();
    Some(match stockade_docker::EngineLook::look(&options).await {
        Ok(look) => ContainerLook { lines: look.lines(), data: json!(look) },
        Err(obstacle) => ContainerLook {
            lines: vec![
                ("Docker engine".to_owned(), obstacle.reason.clone()),
                (String::new(), format!("= {}", obstacle.remedy)),
            ],
            data: json!({ "obstacle": obstacle }),
        },
    })
}

/// The container wall is not built in.
#[cfg(not(feature = "docker"))]
pub async fn container_look() -> Option<ContainerLook> {
    None
}
