//! TLS: the ClientHello of every connection is parsed, and connections to hosts whose requests are
//! read end here, with a certificate of the session's own authority.

mod authority;
mod client_hello;
mod key;
mod upstream;

pub use self::authority::AuthorityError;
pub use self::upstream::{Trust, TrustError};

pub(crate) use self::authority::{HTTP2, SessionAuthority};
pub(crate) use self::client_hello::{ClientHello, HelloError, HelloReader};
pub(crate) use self::upstream::{Protocols, Upstream, unverified};

/// A fatal alert `access_denied`, which a client accepts before any key is agreed on.
pub(crate) const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];
