//! TLS passes through unchanged: only the ClientHello is parsed.

mod client_hello;

pub(crate) use self::client_hello::{ClientHello, HelloError, HelloReader};

/// A fatal alert `access_denied`, which a client accepts before any key is agreed on.
pub(crate) const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];
