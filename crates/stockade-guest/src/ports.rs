//! Connections of the host to servers inside.
//!
//! ```text
//! stream of the host ── request ──▶ connecting ── accepted ──▶ bytes in both directions ──▶ ended
//!                                       └── refused: the errno ──▶ ended
//! ```
//! Each direction has backpressure and an end of its own; an error in one ends both.

use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use futures_util::future::try_join;
use futures_util::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Shutdown, SocketFlags, SocketType, connect, shutdown, socket_with,
};
use stockade_wire::{PortReply, PortRequest, read_message, write_message};
use yamux::Stream;

use crate::buffer::Buffer;
use crate::execution::State;
use crate::reactor::{Descriptor, Direction, Reactor};

/// The size of one read.
const CHUNK_BYTES: usize = 64 << 10;

/// Serves one connection until it ends.
pub(crate) async fn serve(mut stream: Stream, state: &State) {
    let Ok(PortRequest { port }) = read_message(&mut stream).await else { return };
    match dial(port, &state.reactor).await {
        Ok(server) => {
            if write_message(&mut stream, &PortReply::Connected).await.is_ok() {
                let (reader, writer) = stream.split();
                // An error on one side drops the other too.
                let _ = try_join(down(reader, &server), up(&server, writer)).await;
            }
        }
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
            // Fails if the host has closed the stream.
            let _ = write_message(&mut stream, &PortReply::Failed(errno)).await;
            let _ = stream.close().await;
        }
    }
}

/// Connects to a port of loopback. Some servers listen only on one of its two addresses.
async fn dial(port: u16, reactor: &Reactor) -> io::Result<Descriptor> {
    let addresses = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let [first, second] = addresses.map(|address| SocketAddr::new(address, port));
    match dial_one(first, reactor).await {
        Ok(server) => Ok(server),
        // The error of the usual address explains more.
        Err(error) => dial_one(second, reactor).await.map_err(|_| error),
    }
}

async fn dial_one(address: SocketAddr, reactor: &Reactor) -> io::Result<Descriptor> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    let socket = Descriptor::new_nonblocking(socket, reactor);
    let connected = poll_fn(|context| {
        socket.attempt(context, Direction::Write, || match connect(&socket, &address) {
            Ok(()) | Err(Errno::ISCONN) => Ok(()),
            Err(Errno::INPROGRESS | Errno::ALREADY) => Err(Errno::AGAIN),
            Err(error) => Err(error),
        })
    });
    connected.await?;
    Ok(socket)
}

/// Copies from the host to the server, and passes the end on.
async fn down(mut stream: impl AsyncRead + Unpin, server: &Descriptor) -> io::Result<()> {
    let mut buffer = Buffer::new(CHUNK_BYTES);
    loop {
        match stream.read(buffer.room()).await? {
            0 => {
                // Fails if the server has closed the connection.
                let _ = shutdown(server, Shutdown::Write);
                return Ok(());
            }
            read => {
                server.write_all(&buffer.bytes()[..read]).await?;
                buffer.was_read(read);
            }
        }
    }
}

/// Copies from the server to the host, and passes the end on.
async fn up(server: &Descriptor, mut stream: impl AsyncWrite + Unpin) -> io::Result<()> {
    let mut buffer = Buffer::new(CHUNK_BYTES);
    loop {
        match server.read(buffer.room()).await? {
            0 => return stream.close().await,
            read => {
                stream.write_all(&buffer.bytes()[..read]).await?;
                buffer.was_read(read);
            }
        }
    }
}
