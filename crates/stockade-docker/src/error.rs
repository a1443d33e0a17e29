//! Errors of the container wall, and their mapping to the caller's error kinds.

use std::io;
use std::time::Duration;

use stockade_carrier::LinkError;
use stockade_hostfiles::{FilterError, HostFileError};
use stockade_provider::{Error, ErrorKind, Obstacle, chain};

use crate::Runtime;

/// A container could not be planned, started or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DockerError {
    /// The address of the engine cannot be used.
    #[error("cannot use the engine's address {address}: {reason}")]
    Address {
        /// The address, or where it was found.
        address: String,
        /// What is wrong with it.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// The engine does not answer.
    #[error("cannot reach a Docker engine at {address}")]
    Down {
        /// The engine's address.
        address: String,
        /// The error of the connection.
        #[source]
        source: bollard::errors::Error,
    },
    /// The engine took too long.
    #[error("the Docker engine took longer than {} s to {doing}", limit.as_secs())]
    Slow {
        /// The request.
        doing: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// The engine returned an error.
    #[error("the Docker engine cannot {doing}: {message}")]
    Engine {
        /// The request.
        doing: &'static str,
        /// The engine's message.
        message: String,
    },
    /// The engine's disk is full.
    #[error("the Docker engine cannot {doing}, because its disk is full: {message}")]
    DiskFull {
        /// The request.
        doing: &'static str,
        /// The engine's message.
        message: String,
    },
    /// The image is not on the engine.
    #[error("the Docker engine has no image {image}")]
    NoImage {
        /// The reference.
        image: String,
    },
    /// The engine does not have the hardened image, which the caller requires.
    #[error("the Docker engine has no hardened image {image}, which is required")]
    NoHardened {
        /// Its name.
        image: &'static str,
    },
    /// The image has the name of the hardened one, and its PATH is not.
    #[error("the image {image} is not the hardened one: other programs are in its PATH")]
    NotHardened {
        /// The reference.
        image: String,
    },
    /// The hardened image cannot be built.
    #[error("cannot build the image {image}: {reason}")]
    Build {
        /// Its name.
        image: String,
        /// The message of the recipe or of the engine.
        reason: String,
    },
    /// Not the name of a program for the hardened image.
    #[error("{name:?} cannot be a program of the hardened image")]
    ProgramName {
        /// The text.
        name: String,
    },
    /// The engine cannot download an image.
    #[error("the Docker engine cannot download the image {image}: {reason}")]
    Pull {
        /// The reference.
        image: String,
        /// The message of the engine.
        reason: String,
    },
    /// The reference is not one of an image, or the image is for another machine.
    #[error("cannot use the image {image}: {reason}")]
    Image {
        /// The reference.
        image: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Programs cannot run as the requested user.
    #[error("cannot use a user of the image {image}: {source}")]
    User {
        /// The reference.
        image: String,
        /// Why.
        source: stockade_image::UserError,
    },
    /// The engine does not have the requested runtime.
    #[error("the Docker engine has no runtime {name}; it has {known}")]
    NoRuntime {
        /// The name.
        name: &'static str,
        /// The registered runtimes.
        known: String,
    },
    /// A runtime did not start the container.
    #[error("the runtime {runtime} cannot start a container: {message}")]
    Start {
        /// The runtime.
        runtime: Runtime,
        /// The message of the engine or of the guest.
        message: String,
    },
    /// Another kernel runs the container than the runtime's name promises.
    #[error("the runtime {runtime} runs programs on {found}, which is not what its name promises")]
    WrongKernel {
        /// The runtime.
        runtime: Runtime,
        /// The kernel seen inside.
        found: String,
    },
    /// The request needs something that this wall does not support.
    #[error("cannot use {what} here: {reason}")]
    Unsupported {
        /// The requested feature.
        what: &'static str,
        /// Why not.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A host path of the policy cannot be used.
    #[error(transparent)]
    HostFile(#[from] HostFileError),
    /// The requested tool files cannot be shown.
    #[error("cannot show tools inside: {reason}")]
    Tools {
        /// Why not.
        reason: String,
    },
    /// This build carries no guest, or is for an unknown machine.
    #[error("this build has no guest for containers")]
    NoGuest,
    /// A system-call filter cannot be made.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The link to the guest could not be opened.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Preparing something on this host failed.
    #[error("cannot {doing}")]
    Prepare {
        /// The operation.
        doing: &'static str,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
}

impl DockerError {
    /// Classifies an error of the engine's client.
    pub(crate) fn of(
        doing: &'static str,
        address: &str,
        limit: Duration,
        error: bollard::errors::Error,
    ) -> DockerError {
        use bollard::errors::Error as Client;
        match error {
            Client::DockerResponseServerError { message, .. } => answered(doing, message),
            Client::DockerStreamError { error } => answered(doing, error),
            Client::RequestTimeoutError => DockerError::Slow { doing, limit },
            source @ (Client::HyperLegacyError { .. }
            | Client::HyperResponseError { .. }
            | Client::SocketNotFoundError(_)
            | Client::IOError { .. }) => DockerError::Down { address: address.to_owned(), source },
            other => DockerError::Engine { doing, message: other.to_string() },
        }
    }

    /// The error as a reason and a remedy.
    pub(crate) fn into_obstacle(self) -> Obstacle {
        let remedy = self.remedy().unwrap_or_else(|| "see docs/docker.md".to_owned());
        Obstacle { reason: chain(&self), remedy }
    }

    fn remedy(&self) -> Option<String> {
        let remedy = match self {
            DockerError::Address { remedy, .. } => remedy.clone(),
            DockerError::Down { .. } => {
                "start the engine, or name another with --docker-url or DOCKER_HOST; see that this \
                 user may use its socket"
                    .to_owned()
            }
            DockerError::Slow { .. } => "look at the engine's load and its log".to_owned(),
            DockerError::Engine { .. } => "look at the engine's log".to_owned(),
            DockerError::DiskFull { .. } => {
                "free space on the engine's disk, for example with `docker system prune`".to_owned()
            }
            DockerError::NoImage { image } => format!(
                "fetch it with `docker pull {image}` or --pull missing, or name another with --image"
            ),
            DockerError::NoHardened { .. } => {
                "build it with `stockade image build --hardened`".to_owned()
            }
            DockerError::NotHardened { .. } => {
                "build it anew with `stockade image build --hardened`".to_owned()
            }
            DockerError::Build { .. } => {
                "name another base image with --base; it needs Debian's tools and a python3"
                    .to_owned()
            }
            DockerError::ProgramName { .. } => {
                "name at most 255 programs by letters, digits, `.`, `_`, `+` and `-`, such as \
                 --allow grep,sed"
                    .to_owned()
            }
            DockerError::Pull { image, .. } => format!(
                "see that the name is right and the engine reaches its registry; for one with a \
                 login, use `docker login` and `docker pull {image}`"
            ),
            DockerError::Image { .. } => "name another image with --image".to_owned(),
            DockerError::User { source, .. } => source.remedy().to_owned(),
            DockerError::NoRuntime { name, .. } => format!(
                "register {name} in the engine's daemon.json, or choose another with --runtime"
            ),
            DockerError::Start { .. } => {
                "look at the engine's log, or choose another with --runtime".to_owned()
            }
            DockerError::WrongKernel { runtime, .. } => format!(
                "correct the registration of {runtime} in the engine's daemon.json, or choose \
                 another with --runtime"
            ),
            DockerError::Unsupported { remedy, .. } => (*remedy).to_owned(),
            DockerError::HostFile(HostFileError::Path { remedy, .. }) => remedy.clone(),
            DockerError::Filter(error) => error.remedy(),
            DockerError::Tools { .. } => {
                "offer fewer tools, or shorten their schemas and descriptions".to_owned()
            }
            DockerError::HostFile(HostFileError::Mounts { .. })
            | DockerError::NoGuest
            | DockerError::Link(_)
            | DockerError::Prepare { .. } => return None,
        };
        Some(remedy)
    }
}

/// An error that the engine itself returned. The kernel's text for ENOSPC decides only the advice.
fn answered(doing: &'static str, message: String) -> DockerError {
    match message.contains("no space left on device") {
        true => DockerError::DiskFull { doing, message },
        false => DockerError::Engine { doing, message },
    }
}

impl From<DockerError> for Error {
    fn from(error: DockerError) -> Error {
        // No wildcard arm: a new variant must choose its kind.
        let kind = match &error {
            DockerError::Address { .. }
            | DockerError::NoImage { .. }
            | DockerError::NoHardened { .. }
            | DockerError::NotHardened { .. }
            | DockerError::Build { .. }
            | DockerError::ProgramName { .. }
            | DockerError::Image { .. }
            | DockerError::User { .. }
            | DockerError::HostFile(_)
            | DockerError::Tools { .. } => ErrorKind::Invalid,
            DockerError::Filter(FilterError::ForeignMachine) => ErrorKind::Unavailable,
            DockerError::Filter(_) => ErrorKind::Invalid,
            DockerError::Unsupported { .. } => ErrorKind::Unenforceable,
            DockerError::Down { .. }
            | DockerError::Slow { .. }
            | DockerError::Engine { .. }
            | DockerError::DiskFull { .. }
            | DockerError::Pull { .. }
            | DockerError::NoRuntime { .. }
            | DockerError::Start { .. }
            | DockerError::WrongKernel { .. } => ErrorKind::Unavailable,
            DockerError::NoGuest | DockerError::Prepare { .. } => ErrorKind::Internal,
            DockerError::Link(_) => ErrorKind::Lost,
        };
        let remedy = error.remedy();
        let error = Error::new(kind, error);
        match remedy {
            Some(remedy) => error.with_remedy(remedy),
            None => error,
        }
    }
}
