//! The way out of a sandbox, seen from its wall.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

use futures_core::future::BoxFuture;
use stockade_wire::Opening;
use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Opens a way to a program beside its stream, for much: what comes from a socket can go through a
/// pipe without being read and written again.
pub trait OpensLane: Send + Sync + fmt::Debug {
    /// A pipe whose bytes come to the program after all that were written to the stream. It is told
    /// of with the next write to the stream, which must be an empty one, and is the last where it
    /// could be told. Dropping the pipe is the end of its bytes; the stream then ends as ever.
    ///
    /// An error says that there is none. Called again only after an error.
    fn open(&self) -> io::Result<OpenLane>;
}

/// A way that was opened.
pub struct OpenLane {
    /// The end to write to. It does not block.
    pub pipe: OwnedFd,
    /// Whether the other end could be told of it. Where it could not, the stream goes on as before.
    pub told: BoxFuture<'static, bool>,
}

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

    /// The same where a lane can be opened beside the stream, once. Called instead of
    /// [`Gateway::serve`]; a gateway that has no use for it need not know of it.
    fn serve_with_lane(
        &self,
        opening: Opening,
        stream: Box<dyn Duplex>,
        lane: Box<dyn OpensLane>,
    ) -> BoxFuture<'static, ()> {
        drop(lane);
        self.serve(opening, stream)
    }

    /// What it takes; the wall builds inside what leads to that, and nothing else.
    fn carries(&self) -> Carried;

    /// The most streams that may be open at once. The wall refuses those beyond it.
    fn most_streams(&self) -> usize;
}
