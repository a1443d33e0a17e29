//! Connections of the host to servers inside.

use std::fmt;

use futures_core::future::BoxFuture;

use crate::{Duplex, Error};

/// The loopback ports of a sandbox.
pub trait Ports: Send + Sync + fmt::Debug {
    /// Connects to a port of loopback inside. Half-closing the stream half-closes the connection,
    /// and dropping it closes it. All bytes on it are hostile.
    fn connect(&self, port: u16) -> BoxFuture<'static, Result<Box<dyn Duplex>, Error>>;
}
