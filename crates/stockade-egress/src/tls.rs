//! TLS that passes through untouched: only the ClientHello is read.

mod client_hello;

pub(crate) use self::client_hello::{ClientHello, HelloError, HelloReader};

/// A fatal alert `access_denied`, as a client understands it before any key is agreed on.
pub(crate) const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];
