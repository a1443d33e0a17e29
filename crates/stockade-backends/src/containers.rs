//! The container wall, if it is built in.

use std::sync::Arc;

use serde_json::Value;
#[cfg(feature = "docker")]
use serde_json::json;
use stockade_image::{ImageConfig, ImageUser, Listed};
#[cfg(not(feature = "docker"))]
use stockade_provider::ErrorKind;
use stockade_provider::{Error, Obstacle, Provider};

/// The values of `--runtime`.
pub const RUNTIMES: [&str; 5] = ["auto", "runc", "crun", "runsc", "kata-runtime"];

/// Which container engine and runtime to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerChoice {
    /// The engine's address; otherwise the variables and contexts of the `docker` command decide.
    pub url: Option<String>,
    /// One of [`RUNTIMES`].
    pub runtime: Option<String>,
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

/// An image of the container engine, for a sandbox that will start from it.
#[derive(Clone, Debug)]
pub struct ContainerImage {
    /// Its digest.
    pub id: String,
    /// What it says about its own program.
    pub config: ImageConfig,
    /// The user that the caller asked for.
    pub user: Option<ImageUser>,
}

/// Asks the container engine about an image and one of its users.
#[cfg(feature = "docker")]
pub async fn container_image(
    choice: &ContainerChoice,
    reference: &str,
    user: Option<&str>,
) -> Result<ContainerImage, Error> {
    let look = stockade_docker::ImageLook::look(&choice.options(), reference, user).await?;
    let stockade_docker::ImageLook { id, config, user } = look;
    Ok(ContainerImage { id, config, user })
}

/// The container wall is not built in.
#[cfg(not(feature = "docker"))]
pub async fn container_image(
    _: &ContainerChoice,
    _: &str,
    _: Option<&str>,
) -> Result<ContainerImage, Error> {
    let error = Error::new(ErrorKind::Invalid, "the docker wall is not built into this version");
    Err(error.with_remedy("import the image, and use --provider native"))
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
