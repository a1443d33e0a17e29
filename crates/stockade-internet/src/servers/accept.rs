//! Accepting connections, by the protocol of the port.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener as StandardListener};
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::LazyConfigAcceptor;

use super::web::{Endpoints, Site};
use crate::authority::Authority;
use crate::log::{Log, LogEntry};

/// The first line on ports where the server sends first.
const BANNER: &str = "SSH-2.0-stockade_internet\r\n";

/// Accepts connections forever, each in its own task. A failed connection does not affect the
/// others.
async fn each<F>(
    listener: StandardListener,
    serve: impl Fn(TcpStream, SocketAddr, SocketAddr) -> F,
) -> io::Result<()>
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, from) = listener.accept().await?;
        stream.set_nodelay(true)?;
        if let Ok(to) = stream.local_addr() {
            tokio::spawn(serve(stream, from, to));
        }
    }
}

/// HTTP without TLS.
pub(crate) async fn http(listener: StandardListener, site: Arc<Site>) -> io::Result<()> {
    each(listener, move |stream, from, to| {
        let site = Arc::clone(&site);
        async move {
            let endpoints = Endpoints { scheme: "http", from, to };
            site.connected(&endpoints);
            site.serve(stream, endpoints).await
        }
    })
    .await
}

/// HTTP in TLS, for any name in the client's hello.
pub(crate) async fn https(
    listener: StandardListener,
    authority: Arc<Authority>,
    site: Arc<Site>,
) -> io::Result<()> {
    each(listener, move |stream, from, to| {
        let (authority, site) = (Arc::clone(&authority), Arc::clone(&site));
        async move {
            let endpoints = Endpoints { scheme: "https", from, to };
            site.connected(&endpoints);
            let acceptor = rustls::server::Acceptor::default();
            let start = LazyConfigAcceptor::new(acceptor, stream).await?;
            let name = start.client_hello().server_name().map(str::to_owned);
            site.greeted(&endpoints, name.as_deref().unwrap_or_default());
            let configuration =
                authority.configuration(name.as_deref(), to.ip()).map_err(io::Error::other)?;
            site.serve(start.into_stream(configuration).await?, endpoints).await
        }
    })
    .await
}

/// The server sends a banner first, then echoes every line.
pub(super) async fn server_first(listener: StandardListener, log: Log) -> io::Result<()> {
    each(listener, move |mut stream, from, to| {
        let log = log.clone();
        async move {
            log.add(&LogEntry::new("tcp", "connection").between(from, to));
            stream.write_all(BANNER.as_bytes()).await?;
            answer(stream, from, to, &log, |received| received.to_vec()).await
        }
    })
    .await
}

/// The client sends first; any bytes are accepted.
pub(super) async fn anything(listener: StandardListener, log: Log) -> io::Result<()> {
    each(listener, move |stream, from, to| {
        let log = log.clone();
        async move {
            log.add(&LogEntry::new("tcp", "connection").between(from, to));
            let reply = format!("heard at port {}\n", to.port());
            answer(stream, from, to, &log, |_| reply.clone().into_bytes()).await
        }
    })
    .await
}

async fn answer(
    mut stream: TcpStream,
    from: SocketAddr,
    to: SocketAddr,
    log: &Log,
    say: impl Fn(&[u8]) -> Vec<u8>,
) -> io::Result<()> {
    let mut buffer = vec![0; 4096];
    loop {
        let received = match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            count => &buffer[..count],
        };
        let detail = String::from_utf8_lossy(received);
        log.add(&LogEntry::new("tcp", "data").between(from, to).with(&detail));
        stream.write_all(&say(received)).await?;
    }
}
