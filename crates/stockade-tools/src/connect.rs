//! Opens the connections of HTTP tools.

use std::fmt;
use std::io;

use futures_core::future::BoxFuture;
use tokio::net::TcpStream;

/// Opens connections from the host to the servers of HTTP tools.
pub trait Connect: Send + Sync + fmt::Debug {
    /// Opens a connection to a port of a host: a name without a trailing dot, or an address without
    /// brackets. Called once per call; dropping the future cancels the attempt.
    fn connect(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<TcpStream>>;
}

/// Resolves names with the C library of this process. Static executables should not use it: their C
/// library cannot load the machine's name service modules.
#[derive(Clone, Copy, Debug)]
pub struct SystemConnect;

impl Connect for SystemConnect {
    fn connect(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<TcpStream>> {
        let host = host.to_owned();
        Box::pin(async move { TcpStream::connect((host, port)).await })
    }
}
