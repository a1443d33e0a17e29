//! Errors of the managed wall, and their mapping to the caller's error kinds.

use std::time::Duration;

use stockade_hostfiles::FilterError;
use stockade_provider::{Error, ErrorKind, Obstacle, chain};

use crate::http::HttpError;

/// A sandbox of the service could not be planned, created or used. No message contains a
/// credential.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcaError {
    /// An option is missing or wrong.
    #[error("cannot use the {what}: {reason}")]
    Option {
        /// Which one.
        what: String,
        /// Why not.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// No credential gives a token.
    #[error("cannot authenticate to Azure: {reason}")]
    Credential {
        /// What each kind of credential lacks.
        reason: String,
    },
    /// The service does not accept the credential.
    #[error("Azure refuses to {doing} with HTTP status {status}{detail}")]
    Refused {
        /// The request.
        doing: &'static str,
        /// 401 or 403.
        status: u16,
        /// The service's error text, bounded.
        detail: String,
    },
    /// The service does not know the object.
    #[error("Azure cannot {doing}: there is no such object{detail}")]
    Missing {
        /// The request.
        doing: &'static str,
        /// The service's error text, bounded.
        detail: String,
    },
    /// The object is in a state in which the service does not do it.
    #[error("Azure cannot {doing} now, with HTTP status 409{detail}")]
    Conflict {
        /// The request.
        doing: &'static str,
        /// The service's error text, bounded.
        detail: String,
    },
    /// The service has too many requests.
    #[error("Azure is too busy to {doing}, with HTTP status 429")]
    Busy {
        /// The request.
        doing: &'static str,
    },
    /// The service answers with another status.
    #[error("Azure cannot {doing}, with HTTP status {status}{detail}")]
    Status {
        /// The request.
        doing: &'static str,
        /// The status.
        status: u16,
        /// The service's error text, bounded.
        detail: String,
    },
    /// A request could not be sent, or its response could not be received.
    #[error("cannot {doing} at {host}")]
    Transport {
        /// The request.
        doing: &'static str,
        /// The host.
        host: String,
        /// What went wrong.
        #[source]
        source: HttpError,
    },
    /// A response is not what the interface promises.
    #[error("Azure's response to {doing} cannot be used: {reason}")]
    Response {
        /// The request.
        doing: &'static str,
        /// Why not.
        reason: String,
    },
    /// The sandbox does not run in time, or never will.
    #[error("the sandbox does not run: {reason}")]
    NeverRuns {
        /// Its state, or how long it had.
        reason: String,
    },
    /// The service stores another egress policy than the requested one.
    #[error("the sandbox has another egress policy than the one that was asked for: {difference}")]
    EgressDiffers {
        /// The first difference.
        difference: String,
    },
    /// The policy or the request needs something that this wall does not support.
    #[error("cannot use {what} here: {reason}")]
    Unsupported {
        /// The requested feature.
        what: String,
        /// Why not.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The runner inside cannot enforce a clause of the policy, or does not start.
    #[error("the disk {disk} cannot be used: {reason}")]
    Disk {
        /// The disk image.
        disk: String,
        /// Why not.
        reason: String,
    },
    /// A system-call filter cannot be made.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// A sandbox could not be deleted. The service deletes it by itself later.
    #[error("cannot delete the sandbox {id} within {} s", limit.as_secs())]
    Undeleted {
        /// Its id.
        id: String,
        /// How long it was tried.
        limit: Duration,
        /// Why the last attempt failed.
        #[source]
        source: Option<Box<AcaError>>,
    },
    /// Something on this host failed.
    #[error("cannot {doing}")]
    Prepare {
        /// The operation.
        doing: &'static str,
        /// The kernel's error.
        #[source]
        source: std::io::Error,
    },
}

impl AcaError {
    /// The error as a reason and a remedy.
    pub(crate) fn into_obstacle(self) -> Obstacle {
        let remedy = self.remedy().unwrap_or_else(|| "see docs/azure.md".to_owned());
        Obstacle { reason: chain(&self), remedy }
    }

    /// Whether the request may have had an effect although it failed.
    pub(crate) fn is_ambiguous(&self) -> bool {
        match self {
            AcaError::Transport { source, .. } => source.may_have_arrived,
            AcaError::Status { status, .. } => *status >= 500,
            AcaError::Response { .. } => true,
            _ => false,
        }
    }

    fn remedy(&self) -> Option<String> {
        let text = match self {
            AcaError::Option { remedy, .. } => return Some(remedy.clone()),
            AcaError::Credential { .. } => {
                "run `az login`, or set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET"
            }
            AcaError::Refused { status: 401, .. } => {
                "see that the credential belongs to the tenant of the subscription"
            }
            AcaError::Refused { .. } => {
                "give this identity the role \"Container Apps SandboxGroup Data Owner\"; a new role \
                 takes some minutes"
            }
            AcaError::Missing { .. } => {
                "check the subscription, the resource group and the sandbox group; \
                 --aca-ensure-group LOCATION creates the sandbox group"
            }
            AcaError::Conflict { .. } | AcaError::Busy { .. } => "try again later",
            AcaError::Status { .. } | AcaError::Response { .. } => {
                "look at the status of the service; see docs/azure.md"
            }
            AcaError::Transport { .. } => {
                "check the endpoint and the connection to it; certificates of an authority of your \
                 own are named with SSL_CERT_FILE"
            }
            AcaError::NeverRuns { .. } => "look at the sandbox group in Azure's portal",
            AcaError::EgressDiffers { .. } => {
                "use a wall on this host; nothing ran, and the sandbox is deleted"
            }
            AcaError::Unsupported { remedy, .. } => remedy,
            AcaError::Disk { .. } => "name another with --aca-disk, such as python-3.13",
            AcaError::Filter(error) => return Some(error.remedy()),
            AcaError::Undeleted { .. } => {
                "delete it with `stockade prune` once this process has ended, or in Azure's portal; \
                 the service deletes it by itself after its idle time"
            }
            AcaError::Prepare { .. } => return None,
        };
        Some(text.to_owned())
    }
}

impl From<AcaError> for Error {
    fn from(error: AcaError) -> Error {
        // No wildcard arm: a new variant must choose its kind.
        let kind = match &error {
            AcaError::Option { .. } => ErrorKind::Invalid,
            AcaError::Filter(FilterError::ForeignMachine) => ErrorKind::Unavailable,
            AcaError::Filter(_) => ErrorKind::Invalid,
            AcaError::Unsupported { .. } => ErrorKind::Unenforceable,
            AcaError::Busy { .. } => ErrorKind::Busy,
            AcaError::Credential { .. }
            | AcaError::Refused { .. }
            | AcaError::Missing { .. }
            | AcaError::Conflict { .. }
            | AcaError::Status { .. }
            | AcaError::Transport { .. }
            | AcaError::Response { .. }
            | AcaError::NeverRuns { .. }
            | AcaError::EgressDiffers { .. }
            | AcaError::Disk { .. }
            | AcaError::Undeleted { .. } => ErrorKind::Unavailable,
            AcaError::Prepare { .. } => ErrorKind::Internal,
        };
        let remedy = error.remedy();
        let error = Error::new(kind, error);
        match remedy {
            Some(remedy) => error.with_remedy(remedy),
            None => error,
        }
    }
}
