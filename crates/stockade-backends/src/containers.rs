//! The container wall, if it is built in.

use std::sync::Arc;

use stockade_provider::Provider;

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
}
