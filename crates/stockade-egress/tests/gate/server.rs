//! Servers outside.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// A server on this machine that remembers what it was sent.
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

    /// Says hello with 200 and stays.
    pub(crate) async fn hello() -> Server {
        Server::http("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await
    }

    /// Speaks first, then sends back what comes.
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

    /// A real TLS server that sends back what comes. Its certificate is for all given names.
    pub(crate) async fn tls(names: &[&str]) -> (Server, RootCertStore) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let certified = rcgen::generate_simple_self_signed(names).unwrap();
        let certificate = CertificateDer::from(certified.cert.der().to_vec());
        let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
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

    /// What it has seen until now.
    pub(crate) fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// What it has seen, as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen().bytes).into_owned()
    }
}
