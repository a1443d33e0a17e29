//! Servers outside.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::certificate;
use crate::world::within;

/// A local server that remembers what it received.
pub(crate) struct Server {
    pub(crate) port: u16,
    seen: watch::Receiver<Seen>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) connections: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Server {
    /// Answers each request with the same bytes. Requests end with their head.
    pub(crate) async fn http(answer: &str) -> Server {
        let answer = answer.to_owned();
        Server::start(move |mut stream, seen| {
            let answer = answer.clone();
            async move {
                let mut held = Vec::new();
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    seen.send_modify(|seen| seen.bytes.extend_from_slice(&buffer[..read]));
                    held.extend_from_slice(&buffer[..read]);
                    while let Some(end) = held.windows(4).position(|part| part == b"\r\n\r\n") {
                        held.drain(..end + 4);
                        if stream.write_all(answer.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                }
            }
        })
        .await
    }

    /// Answers 200 with a greeting and keeps the connection.
    pub(crate) async fn hello() -> Server {
        Server::http("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await
    }

    /// Sends first, then echoes.
    pub(crate) async fn echo(greeting: &'static str) -> Server {
        Server::start(move |mut stream, seen| async move {
            let _ = stream.write_all(greeting.as_bytes()).await;
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                seen.send_modify(|seen| seen.bytes.extend_from_slice(&buffer[..read]));
                if stream.write_all(&buffer[..read]).await.is_err() {
                    return;
                }
            }
            let _ = stream.write_all(b"bye").await;
        })
        .await
    }

    /// A real TLS server that echoes. Its certificate is for all given names.
    pub(crate) async fn tls(names: &[&str]) -> (Server, RootCertStore) {
        let (config, roots) = certificate::server(names);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let server = Server::start(move |stream, seen| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    seen.send_modify(|seen| seen.bytes.extend_from_slice(&buffer[..read]));
                    if stream.write_all(&buffer[..read]).await.is_err() {
                        return;
                    }
                }
            }
        })
        .await;
        (server, roots)
    }

    /// Answers each request over TLS by its head. Requests end with their head, or with so many
    /// bytes as Content-Length says.
    pub(crate) async fn https(config: ServerConfig, respond: fn(&str) -> String) -> Server {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Server::start(move |stream, seen| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut held = Vec::new();
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    seen.send_modify(|seen| seen.bytes.extend_from_slice(&buffer[..read]));
                    held.extend_from_slice(&buffer[..read]);
                    while let Some(end) = held.windows(4).position(|part| part == b"\r\n\r\n") {
                        let head: Vec<u8> = held.drain(..end + 4).collect();
                        let head = String::from_utf8_lossy(&head).into_owned();
                        if stream.write_all(respond(&head).as_bytes()).await.is_err() {
                            return;
                        }
                    }
                }
            }
        })
        .await
    }

    /// Serves each connection with a function.
    pub(crate) async fn start<F, S>(serve: S) -> Server
    where
        S: Fn(TcpStream, watch::Sender<Seen>) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let sender = watch::Sender::new(Seen::default());
        let seen = sender.subscribe();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                sender.send_modify(|seen| seen.connections += 1);
                tokio::spawn(serve(stream, sender.clone()));
            }
        });
        Server { port, seen }
    }

    /// What it has received so far.
    pub(crate) fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Waits until it has received a text.
    pub(crate) async fn until(&self, part: &str) {
        let has = |seen: &Seen| String::from_utf8_lossy(&seen.bytes).contains(part);
        within(self.seen.clone().wait_for(has)).await.unwrap();
    }

    /// What it has received, as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen().bytes).into_owned()
    }
}
