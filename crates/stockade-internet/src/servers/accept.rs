//! Connections: who speaks on which port.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener as StandardListener};
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::LazyConfigAcceptor;

use super::web::{Site, Way};
use crate::authority::Authority;
use crate::log::{Entry, Log};

/// What is said first where the server speaks first.
const BANNER: &str = "SSH-2.0-stockade_internet\r\n";

/// Takes connections forever, each in a task of its own. One that fails concerns nobody else.
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
            let way = Way { scheme: "http", from, to };
            site.connected(&way);
            site.serve(stream, way).await
        }
    })
    .await
}

/// HTTP in TLS, for whatever name the client says.
pub(crate) async fn https(
    listener: StandardListener,
    authority: Arc<Authority>,
    site: Arc<Site>,
) -> io::Result<()> {
    each(listener, move |stream, from, to| {
        let (authority, site) = (Arc::clone(&authority), Arc::clone(&site));
        async move {
            let way = Way { scheme: "https", from, to };
            site.connected(&way);
            let acceptor = rustls::server::Acceptor::default();
            let start = LazyConfigAcceptor::new(acceptor, stream).await?;
            let name = start.client_hello().server_name().map(str::to_owned);
            site.greeted(&way, name.as_deref().unwrap_or_default());
            let configuration =
                authority.configuration(name.as_deref(), to.ip()).map_err(io::Error::other)?;
            site.serve(start.into_stream(configuration).await?, way).await
        }
    })
    .await
}

/// The server speaks first, then sends back every line.
pub(super) async fn server_first(listener: StandardListener, log: Log) -> io::Result<()> {
    each(listener, move |mut stream, from, to| {
        let log = log.clone();
        async move {
            log.add(&Entry::new("tcp", "connection").between(from, to));
            stream.write_all(BANNER.as_bytes()).await?;
            answer(stream, from, to, &log, |heard| heard.to_vec()).await
        }
    })
    .await
}

/// The client speaks first, whatever it says.
pub(super) async fn anything(listener: StandardListener, log: Log) -> io::Result<()> {
    each(listener, move |stream, from, to| {
        let log = log.clone();
        async move {
            log.add(&Entry::new("tcp", "connection").between(from, to));
            let said = format!("heard at port {}\n", to.port());
            answer(stream, from, to, &log, |_| said.clone().into_bytes()).await
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
        let heard = match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            count => &buffer[..count],
        };
        let detail = String::from_utf8_lossy(heard);
        log.add(&Entry::new("tcp", "data").between(from, to).with(&detail));
        stream.write_all(&say(heard)).await?;
    }
}
