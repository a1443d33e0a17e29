//! What the caller chooses: the engine and the runtime.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::RuntimeChoice;

/// Which engine and runtime to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DockerOptions {
    /// The address of the engine, as `--docker-url` takes it.
    pub url: Option<String>,
    /// The runtime.
    pub runtime: RuntimeChoice,
    /// `DOCKER_HOST`.
    pub host: Option<String>,
    /// `DOCKER_CONTEXT`.
    pub context: Option<String>,
    /// `DOCKER_CERT_PATH`, if TLS is requested for an address.
    pub certificates: Option<PathBuf>,
    /// The directory with the configuration of the `docker` command.
    pub configuration: Option<PathBuf>,
    /// Where results of trial starts are kept.
    pub cache: Option<PathBuf>,
}

impl DockerOptions {
    /// The options from environment variables, as the `docker` command reads them.
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> DockerOptions {
        let text = |name| variable(name).and_then(|it| it.into_string().ok());
        let set = |name| text(name).filter(|value| !value.is_empty());
        let home = variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let configuration = variable("DOCKER_CONFIG")
            .map(PathBuf::from)
            .or_else(|| home.as_ref().map(|home| home.join(".docker")));
        let wants_tls = set("DOCKER_TLS_VERIFY").is_some() || set("DOCKER_CERT_PATH").is_some();
        let certificates = set("DOCKER_CERT_PATH").map(PathBuf::from);
        let cache = variable("XDG_CACHE_HOME").map(PathBuf::from).filter(|it| it.is_absolute());
        DockerOptions {
            url: None,
            runtime: RuntimeChoice::Auto,
            host: set("DOCKER_HOST"),
            context: set("DOCKER_CONTEXT"),
            certificates: certificates.or_else(|| configuration.clone()).filter(|_| wants_tls),
            configuration,
            cache: cache
                .or_else(|| home.map(|home| home.join(".cache")))
                .map(|cache| cache.join("stockade")),
        }
    }
}
