//! Where connections of programs in a sandbox go, seen from its wall.

use std::any::Any;
use std::fmt;
use std::net::Ipv4Addr;

use futures_core::future::BoxFuture;
use stockade_policy::Host;
use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes in both directions. `Any` lets a transport and a gateway that share a concrete type find
/// it again; every other gateway reads and writes the bytes.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin + Any {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + Any> Duplex for T {}

/// Where a stream from a sandbox leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The name server inside, as over TCP: a length of two bytes, big endian, then a DNS message.
    /// Answers return in the same form and in the order of the questions.
    Names,
    /// A synthetic address that the name server gave to a name.
    Address {
        /// The address that the program dialled.
        address: Ipv4Addr,
        /// The port that the program dialled.
        port: u16,
    },
    /// A host that the wall knows by name or address, without a synthetic address for it.
    Host {
        /// The name or the address.
        host: Host,
        /// The port.
        port: u16,
    },
    /// The proxy inside. The first bytes show whether the program speaks HTTP or SOCKS.
    Proxy,
    /// The socket where programs call tools.
    Tools,
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
    fn serve(&self, destination: Destination, stream: Box<dyn Duplex>) -> BoxFuture<'static, ()>;

    /// What it takes; the wall builds inside what leads to that, and nothing else.
    fn carries(&self) -> Carried;

    /// The most streams that may be open at once. The wall refuses those beyond it.
    fn most_streams(&self) -> usize;
}
