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

use crate::log::{Entry, Log};
use pages::Then;
use request::Request;

/// A connection of any kind.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<C: AsyncRead + AsyncWrite + Send + Unpin> Connection for C {}

/// How a connection came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
    /// The client.
    pub(crate) from: SocketAddr,
    /// Where the client thinks that it is connected to.
    pub(crate) to: SocketAddr,
}

/// What all web servers share.
#[derive(Debug)]
pub(crate) struct Site {
    token: String,
    repositories: PathBuf,
    log: Option<Log>,
}

impl Site {
    /// A site with this token, and repositories made in this directory when they are first asked
    /// for. Without a log nothing is written down.
    pub(crate) fn new(token: String, repositories: PathBuf, log: Option<Log>) -> Site {
        Site { token, repositories, log }
    }

    /// Logs a connection.
    pub(crate) fn connected(&self, way: &Way) {
        self.note(Entry::new(way.scheme, "connection").between(way.from, way.to));
    }

    /// Logs what name a client of TLS said, if any.
    pub(crate) fn greeted(&self, way: &Way, name: &str) {
        self.note(Entry::new(way.scheme, "hello").between(way.from, way.to).named(name));
    }

    /// Answers requests until the client goes, or an answer ends the connection.
    pub(crate) async fn serve(&self, stream: impl Connection, way: Way) -> io::Result<()> {
        let mut stream = BufStream::with_capacity(16 << 10, 64 << 10, stream);
        while let Some(request) = Request::read(&mut stream).await? {
            let entry = Entry::new(way.scheme, "request").between(way.from, way.to);
            self.note(entry.named(request.header("host").unwrap_or_default()).with(&request.line));
            let then = self.answer(&request, &mut stream, &way).await?;
            stream.flush().await?;
            if then == Then::Close {
                break;
            }
        }
        stream.shutdown().await
    }

    fn note(&self, entry: Entry) {
        if let Some(log) = &self.log {
            log.add(&entry);
        }
    }
}
