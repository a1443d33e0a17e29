//! The interface between a wall and the destinations of a sandbox's connections.

use std::any::Any;
use std::fmt;
use std::net::Ipv4Addr;

use futures_core::future::BoxFuture;
use stockade_policy::{Host, Method, UrlPath};
use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes in both directions. `Any` allows a transport and a gateway that share a concrete type to
/// recover it; every other gateway reads and writes the bytes.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin + Any {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + Any> Duplex for T {}

/// Where a stream from a sandbox leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The name server inside, as DNS over TCP: a length of two bytes, big endian, then a DNS
    /// message. Responses use the same form and the order of the queries.
    Names,
    /// A synthetic address that the name server gave to a name, or a loopback address that the
    /// policy lists.
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
    /// One request that the wall makes for a program, so that its method and path are known even
    /// where the stream carries TLS. No guest opens such a stream.
    Request {
        /// The name or the address.
        host: Host,
        /// The port.
        port: u16,
        /// The method.
        method: Method,
        /// The path, without the query.
        path: UrlPath,
    },
    /// The proxy inside. The first bytes show whether the program uses HTTP or SOCKS.
    Proxy,
    /// The tool socket.
    Tools,
    /// The socket on which stubs of an image report the commands that the image denies. A wall
    /// serves it itself.
    Denials,
}

/// The kinds of connection that a gateway serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Connections to the network: DNS queries, synthetic addresses, and the proxy.
    pub network: bool,
    /// Connections to the tool socket.
    pub tools: bool,
}

/// Serves the connections that programs in a sandbox open. A wall relays them and decides nothing.
pub trait Gateway: Send + Sync + fmt::Debug {
    /// Serves one stream that the guest opened, until it ends. Called for each new stream; when the
    /// sandbox ends, the wall drops the future, which closes the connection.
    ///
    /// All bytes on the stream are hostile.
    fn serve(&self, destination: Destination, stream: Box<dyn Duplex>) -> BoxFuture<'static, ()>;

    /// What it serves; the wall builds the sockets inside for these and no others.
    fn carries(&self) -> Carried;

    /// The maximum number of open streams. The wall refuses further streams.
    fn most_streams(&self) -> usize;
}
