//! Resolves names to addresses, once per connection.

mod files;
mod fixed;
mod stub;
mod system;

use std::fmt;
use std::net::IpAddr;

use futures_core::future::BoxFuture;
use stockade_policy::HostName;

pub use self::fixed::FixedNames;
pub use self::system::SystemResolver;

/// The most addresses of a name that are considered.
pub(crate) const MAX_ADDRESSES: usize = 64;
/// The most aliases between a name and its addresses.
pub(crate) const MAX_ALIASES: usize = 16;

/// Resolves names to addresses. The name is absolute: no search domain is appended.
pub trait Resolve: Send + Sync + fmt::Debug {
    /// Returns every address of a name, with the aliases that led there. Called once per
    /// connection; the gate judges the answer before it dials, and does not resolve again.
    fn resolve(&self, name: &HostName) -> BoxFuture<'static, Result<Resolved, ResolveError>>;
}

/// The result of resolving a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The addresses, in the order of dialling.
    pub addresses: Vec<IpAddr>,
    /// The aliases between the requested name and the name with the addresses.
    pub aliases: Vec<HostName>,
}

/// Why a name has no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The name does not exist.
    #[error("{name} does not exist")]
    Unknown {
        /// The name.
        name: HostName,
    },
    /// The name exists but has no address.
    #[error("{name} has no address")]
    NoAddress {
        /// The name.
        name: HostName,
    },
    /// An alias is not a valid host name, or there are too many aliases.
    #[error("{name} leads through aliases that cannot be followed")]
    BadAlias {
        /// The name.
        name: HostName,
    },
    /// No name server answered.
    #[error("no name server answered for {name}; is this machine connected to a network?")]
    NoAnswer {
        /// The name.
        name: HostName,
    },
}
