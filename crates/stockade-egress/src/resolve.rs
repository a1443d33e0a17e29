//! From a name to addresses, once per connection.

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

/// The most addresses of a name that are looked at.
pub(crate) const MAX_ADDRESSES: usize = 64;
/// The most aliases between a name and its addresses.
pub(crate) const MAX_ALIASES: usize = 16;

/// Turns names into addresses. The name is absolute: nothing is appended to it.
pub trait Resolve: Send + Sync + fmt::Debug {
    /// Every address of a name, with the aliases that led there. Called once per connection; what
    /// it answers is judged before anything is dialled, and nothing is asked again.
    fn resolve(&self, name: &HostName) -> BoxFuture<'static, Result<Resolved, ResolveError>>;
}

/// Where a name leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The addresses, in the order in which they are tried.
    pub addresses: Vec<IpAddr>,
    /// The names between the one that was asked for and the one that has the addresses.
    pub aliases: Vec<HostName>,
}

/// Why a name has no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// There is no such name.
    #[error("{name} does not exist")]
    Unknown {
        /// The name.
        name: HostName,
    },
    /// The name exists and has no address.
    #[error("{name} has no address")]
    NoAddress {
        /// The name.
        name: HostName,
    },
    /// An alias is no host name, or there are too many of them.
    #[error("{name} leads through aliases that cannot be followed")]
    BadAlias {
        /// The name.
        name: HostName,
    },
    /// No name server gave an answer.
    #[error("no name server answered for {name}; is this machine connected to a network?")]
    NoAnswer {
        /// The name.
        name: HostName,
    },
}
