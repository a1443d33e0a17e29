//! How connections of HTTP tools are opened.

use std::fmt;
use std::io;

use futures_core::future::BoxFuture;
use tokio::net::TcpStream;

/// Opens connections to the servers of HTTP tools, from the host.
pub trait Connect: Send + Sync + fmt::Debug {
    /// Opens a connection to a port of a host: a name without a dot at its end, or an address
    /// without brackets. Called once for each call; dropping what is returned gives up.
    fn connect(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<TcpStream>>;
}

/// Resolves names as the C library of this process does. A static executable should not: its C
/// library cannot load what this machine resolves names with.
#[derive(Clone, Copy, Debug)]
pub struct SystemConnect;

impl Connect for SystemConnect {
    fn connect(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<TcpStream>> {
        let host = host.to_owned();
        Box::pin(async move { TcpStream::connect((host, port)).await })
    }
}
