//! One web server of the fake internet, standalone on an address of this host.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::authority::{Authority, AuthorityError};
use crate::servers::{Site, accept};

/// A web server with and without TLS, on two free ports, with the pages of the fake internet, such
/// as `/large?bytes=N`. Dropping it stops it.
///
/// It needs no namespaces: benchmarks use it to measure the cost of a proxy.
#[derive(Debug)]
pub struct WebServer {
    http: SocketAddr,
    https: SocketAddr,
    authority: Arc<Authority>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Why a web server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebServerError {
    /// No socket, or no thread to serve it.
    #[error("listening on {address} for the web server")]
    Listen {
        /// The address to listen on.
        address: IpAddr,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// No certificate.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}

impl WebServer {
    /// Listens on free ports of an address, with a new authority.
    pub fn start(address: IpAddr) -> Result<WebServer, WebServerError> {
        let authority = Arc::new(Authority::new()?);
        let failed = |source| WebServerError::Listen { address, source };
        let listen = || {
            let listener = TcpListener::bind((address, 0))?;
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, listener))
        };
        let (http, plain) = listen().map_err(failed)?;
        let (https, encrypted) = listen().map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let site = Arc::new(Site::new("stockade".to_owned(), PathBuf::new(), None));
        let (stop, stopped) = oneshot::channel::<()>();
        let signer = Arc::clone(&authority);
        let thread = std::thread::Builder::new().name("web server".to_owned()).spawn(move || {
            runtime.block_on(async move {
                tokio::select! {
                    // Only closing the channel matters: nothing is ever sent.
                    _ = stopped => {}
                    _ = accept::http(plain, Arc::clone(&site)) => {}
                    _ = accept::https(encrypted, signer, site) => {}
                }
            });
        });
        let thread = thread.map_err(failed)?;
        Ok(WebServer { http, https, authority, stop: Some(stop), thread: Some(thread) })
    }

    /// The address for HTTP.
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// The address for HTTP in TLS, for any name in the client's hello.
    pub fn https(&self) -> SocketAddr {
        self.https
    }

    /// The certificate that signs the server's certificate, as PEM.
    pub fn authority_pem(&self) -> &str {
        self.authority.pem()
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        // Ignored: a panic of the thread is already printed.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpStream};
    use std::sync::Arc;

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

    use super::*;

    const REQUEST: &[u8] =
        b"GET /large?bytes=3000000 HTTP/1.1\r\nHost: any.test\r\nConnection: close\r\n\r\n";

    #[test]
    fn server_sends_the_requested_bytes_with_and_without_tls() {
        let server = WebServer::start(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
        let mut plain = TcpStream::connect(server.http()).unwrap();
        assert_eq!(body_bytes(&mut plain), 3_000_000);

        let mut trusted = RootCertStore::empty();
        let pem = server.authority_pem().as_bytes();
        trusted.add(CertificateDer::from_pem_slice(pem).unwrap()).unwrap();
        let provider = Arc::new(rustls_graviola::default_provider());
        let configuration = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(trusted)
            .with_no_client_auth();
        let name = ServerName::try_from("any.test").unwrap();
        let client = ClientConnection::new(Arc::new(configuration), name).unwrap();
        let socket = TcpStream::connect(server.https()).unwrap();
        assert_eq!(body_bytes(&mut StreamOwned::new(client, socket)), 3_000_000);
    }

    #[test]
    fn dropped_server_stops_listening() {
        let server = WebServer::start(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
        let address = server.http();
        drop(TcpStream::connect(address).unwrap());
        drop(server);
        assert!(TcpStream::connect(address).is_err());
    }

    fn body_bytes(stream: &mut (impl Read + Write)) -> usize {
        stream.write_all(REQUEST).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let head = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        answer.len() - head - 4
    }
}
