//! The way out of a sandbox, seen from its wall.

use std::fmt;

use futures_core::future::BoxFuture;
use stockade_wire::Opening;
use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// What a gateway takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Connections to the network: names, addresses that stand for them, and the proxy.
    pub network: bool,
    /// Connections to the socket where programs call tools.
    pub tools: bool,
}

/// Takes the connections that programs in a sandbox open. A wall carries them and decides nothing.
pub trait Gateway: Send + Sync + fmt::Debug {
    /// Serves one stream that the guest opened, up to its end. Called for each as it comes; the
    /// wall drops what is returned, and with it the connection, when the sandbox ends.
    ///
    /// Everything that comes on the stream is hostile.
    fn serve(&self, opening: Opening, stream: Box<dyn Duplex>) -> BoxFuture<'static, ()>;

    /// What it takes; the wall builds inside what leads to that, and nothing else.
    fn carries(&self) -> Carried;

    /// The most streams that may be open at once. The wall refuses those beyond it.
    fn most_streams(&self) -> usize;
}
