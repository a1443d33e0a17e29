//! A connection to an engine. Every request has a deadline and a name for messages.

use std::path::Path;
use std::time::Duration;

use bollard::errors::Error as ClientError;
use bollard::{API_DEFAULT_VERSION, Docker};
use tokio::time::timeout;

use crate::endpoint::Endpoint;
use crate::{DockerError, DockerOptions, EngineFacts};

/// How long the engine may take to answer an ordinary request.
pub(crate) const ORDINARY: Duration = Duration::from_secs(10);

/// An engine with a negotiated API version.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    pub(crate) docker: Docker,
    pub(crate) endpoint: Endpoint,
}

impl Engine {
    /// Connects, and uses the newest API version that both sides know.
    pub(crate) async fn connect(options: &DockerOptions) -> Result<Engine, DockerError> {
        let endpoint = Endpoint::find(options)?;
        let address = endpoint.to_string();
        let down = |source| DockerError::of("answer", &address, ORDINARY, source);
        let docker = open(&endpoint).map_err(down)?;
        let negotiated = timeout(ORDINARY, docker.negotiate_version()).await;
        let docker = match negotiated {
            Ok(docker) => docker.map_err(down)?,
            Err(_) => return Err(DockerError::Slow { doing: "answer", limit: ORDINARY }),
        };
        Ok(Engine { docker, endpoint })
    }

    /// What the engine offers.
    pub(crate) async fn facts(&self) -> Result<EngineFacts, DockerError> {
        let info = self.ask("describe itself", self.docker.info()).await?;
        Ok(EngineFacts::of(&info, &self.docker.client_version(), self.endpoint.is_local()))
    }

    /// Sends a request with the ordinary deadline.
    pub(crate) async fn ask<T>(
        &self,
        doing: &'static str,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, DockerError> {
        self.ask_within(ORDINARY, doing, call).await
    }

    /// Sends a request with a deadline of its own.
    pub(crate) async fn ask_within<T>(
        &self,
        limit: Duration,
        doing: &'static str,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, DockerError> {
        match timeout(limit, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(DockerError::of(doing, &self.endpoint.to_string(), limit, error)),
            Err(_) => Err(DockerError::Slow { doing, limit }),
        }
    }
}

fn open(endpoint: &Endpoint) -> Result<Docker, ClientError> {
    /// Longer than any deadline of ours, which are shorter and name the request.
    const CLIENT_SECONDS: u64 = 120;
    match endpoint {
        Endpoint::Unix(path) => {
            Docker::connect_with_unix(&path.to_string_lossy(), CLIENT_SECONDS, API_DEFAULT_VERSION)
        }
        Endpoint::Tcp(address) => {
            Docker::connect_with_http(address, CLIENT_SECONDS, API_DEFAULT_VERSION)
        }
        Endpoint::Tls { address, certificates } => {
            // Fails only if a provider is installed already.
            let _ = rustls_graviola::default_provider().install_default();
            let file = |name: &str| Path::new(certificates).join(name);
            Docker::connect_with_ssl(
                address,
                &file("key.pem"),
                &file("cert.pem"),
                &file("ca.pem"),
                CLIENT_SECONDS,
                API_DEFAULT_VERSION,
            )
        }
    }
}
