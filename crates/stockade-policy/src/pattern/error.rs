//! Why a text is not a valid host pattern, and what to write instead.

use thiserror::Error;

use crate::{HostError, HostName, NetworkError};

/// Why a text is not a valid host pattern; the caller prints the text first.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The host in it is not valid.
    #[error(transparent)]
    Host {
        /// What is wrong with the host.
        source: HostError,
    },
    /// The range in it is not valid.
    #[error(transparent)]
    Network {
        /// What is wrong with the range.
        source: NetworkError,
    },
    /// A wildcard that matches every host.
    #[error("matches every host")]
    BareWildcard,
    /// A `*` anywhere but as the whole first label.
    #[error("has a `*` that is not the whole first label")]
    MisplacedWildcard,
    /// A wildcard in front of an address.
    #[error("puts a wildcard in front of an address")]
    WildcardAddress,
    /// A wildcard over names that unrelated parties register.
    #[error("would allow every name that anyone registers under `{suffix}`")]
    PublicSuffix {
        /// The public suffix.
        suffix: HostName,
    },
    /// The metadata service of a cloud.
    #[error("is a cloud metadata service, which serves credentials and is never allowed")]
    Metadata,
    /// The name of the sandbox itself.
    #[error("is the sandbox itself for programs inside, so it can never be a host outside")]
    OwnName,
    /// A range in place of a single host.
    #[error("is a range of addresses where one host is expected")]
    Range,
}

impl PatternError {
    /// What to write instead, without a full stop.
    pub fn remedy(&self) -> String {
        let sentence = match self {
            PatternError::Host { source } => return source.remedy(),
            PatternError::Network { source } => return source.remedy(),
            PatternError::BareWildcard => {
                "name the hosts, or set `defaults.network_default: allow` for every public host"
            }
            PatternError::MisplacedWildcard => {
                "write `*.` once in front of a name, such as `*.example.com`"
            }
            PatternError::WildcardAddress => "write the address alone",
            PatternError::PublicSuffix { suffix } => {
                return format!("name the domain you mean, such as `*.example.{suffix}`");
            }
            PatternError::Metadata => "remove the entry",
            PatternError::OwnName => {
                "for a service on this machine write the address, such as `127.0.0.1:8000`, and \
                 use that address inside"
            }
            PatternError::Range => {
                "list the addresses one by one; a range can stand in `network_blocklist`"
            }
        };
        sentence.to_owned()
    }
}
