//! The web server behind every name and address.

mod archive;
mod git;
mod packages;
mod pages;
mod request;
mod smuggle;
mod websocket;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufStream};

use crate::log::{Log, LogEntry};
use pages::Then;
use request::Request;

/// A plain or a TLS connection.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<C: AsyncRead + AsyncWrite + Send + Unpin> Connection for C {}

/// The scheme and both ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoints {
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
    /// The client.
    pub(crate) from: SocketAddr,
    /// The address that the client connected to.
    pub(crate) to: SocketAddr,
}

/// State that all web servers share.
#[derive(Debug)]
pub(crate) struct Site {
    token: String,
    repositories: PathBuf,
    log: Option<Log>,
}

impl Site {
    /// A site with this token; it creates repositories in this directory on the first request.
    /// Without a log nothing is recorded.
    pub(crate) fn new(token: String, repositories: PathBuf, log: Option<Log>) -> Site {
        Site { token, repositories, log }
    }

    /// Logs a connection.
    pub(crate) fn connected(&self, endpoints: &Endpoints) {
        self.note(
            LogEntry::new(endpoints.scheme, "connection").between(endpoints.from, endpoints.to),
        );
    }

    /// Logs the server name in a TLS hello, if any.
    pub(crate) fn greeted(&self, endpoints: &Endpoints, name: &str) {
        self.note(
            LogEntry::new(endpoints.scheme, "hello")
                .between(endpoints.from, endpoints.to)
                .named(name),
        );
    }

    /// Answers requests until the client disconnects, or an answer closes the connection.
    pub(crate) async fn serve(
        &self,
        stream: impl Connection,
        endpoints: Endpoints,
    ) -> io::Result<()> {
        let mut stream = BufStream::with_capacity(16 << 10, 64 << 10, stream);
        while let Some(request) = Request::read(&mut stream).await? {
            let entry =
                LogEntry::new(endpoints.scheme, "request").between(endpoints.from, endpoints.to);
            self.note(entry.named(request.header("host").unwrap_or_default()).with(&request.line));
            let then = self.answer(&request, &mut stream, &endpoints).await?;
            stream.flush().await?;
            if then == Then::Close {
                break;
            }
        }
        stream.shutdown().await
    }

    fn note(&self, entry: LogEntry) {
        if let Some(log) = &self.log {
            log.add(&entry);
        }
    }
}
