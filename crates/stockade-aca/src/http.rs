//! HTTPS requests to a closed list of hosts: bounded, without redirections and without a proxy.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use url::Url;

/// The most bytes of a response head.
const HEAD_BYTES: usize = 64 << 10;

/// How long a connection may take to open.
const MOST_CONNECT: Duration = Duration::from_secs(10);

/// The most idle connections to one host.
const MOST_IDLE: usize = 8;

/// Why a request failed without a response.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct HttpError {
    /// What went wrong; never a credential.
    reason: String,
    /// Whether the server may have received the request.
    pub(crate) may_have_arrived: bool,
}

impl HttpError {
    fn before(reason: impl Into<String>) -> HttpError {
        HttpError { reason: reason.into(), may_have_arrived: false }
    }

    fn after(reason: impl Into<String>) -> HttpError {
        HttpError { reason: reason.into(), may_have_arrived: true }
    }
}

/// One request.
#[derive(Clone)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
    /// How long it may take, with its response.
    pub(crate) limit: Duration,
    /// The most bytes of a response body.
    pub(crate) most_bytes: usize,
    /// Whether it may use a connection that is open already. The server can close that at the
    /// moment of sending, and then it is unknown whether the request arrived.
    pub(crate) reuses: bool,
}

/// A complete response.
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Sends requests.
pub(crate) struct Http {
    tls: Arc<ClientConfig>,
    idle: Mutex<HashMap<String, Vec<SendRequest<Full<Bytes>>>>>,
    /// The origins that requests may go to.
    allowed: Vec<String>,
}

impl Http {
    /// A client for these origins and no others. Verifies servers with the authorities of a file,
    /// or as this machine does.
    pub(crate) fn new(allowed: &[&Url], authorities: Option<&Path>) -> Result<Http, HttpError> {
        let mut roots = RootCertStore::empty();
        let found = match authorities {
            Some(file) => {
                let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
                read.map_err(|error| {
                    let file = file.display();
                    HttpError::before(format!("cannot read certificates from {file}: {error}"))
                })?
            }
            None => rustls_native_certs::load_native_certs().certs,
        };
        roots.add_parsable_certificates(found);
        let provider = Arc::new(rustls_graviola::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| HttpError::before(format!("TLS cannot be configured: {error}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let allowed = allowed.iter().map(|url| origin(url)).collect();
        Ok(Http { tls: Arc::new(tls), idle: Mutex::default(), allowed })
    }

    /// Sends one request. A response of any status is a success.
    pub(crate) async fn send(&self, request: Outgoing) -> Result<Answered, HttpError> {
        let place = origin(&request.url);
        if !self.allowed.contains(&place) {
            return Err(HttpError::before(format!("{place} is not one of the configured hosts")));
        }
        let limit = request.limit;
        match timeout(limit, self.converse(request, &place)).await {
            Ok(result) => result,
            Err(_) => {
                Err(HttpError::after(format!("no response within {} s", limit.as_secs_f32())))
            }
        }
    }

    async fn converse(&self, request: Outgoing, place: &str) -> Result<Answered, HttpError> {
        let Outgoing { method, url, headers, body, most_bytes, reuses, .. } = request;
        let mut message = Request::new(Full::new(body));
        *message.method_mut() = method;
        let target = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let target = target.parse();
        *message.uri_mut() = target.map_err(|_| HttpError::before("the address has no target"))?;
        let authority = HeaderValue::from_str(&authority(&url));
        let authority = authority.map_err(|_| HttpError::before("the address has no host"))?;
        message.headers_mut().insert(HOST, authority);
        message.headers_mut().extend(headers);
        let mut sender = match reuses.then(|| self.take(place)).flatten() {
            Some(sender) => sender,
            None => self.connect(&url).await?,
        };
        let response = sender.send_request(message).await.map_err(|error| {
            let failed = match error.is_canceled() {
                true => HttpError::before,
                false => HttpError::after,
            };
            failed(format!("the connection failed: {error}"))
        })?;
        let status = response.status().as_u16();
        let (head, body) = response.into_parts();
        let body = whole(Response::from_parts(head.clone(), body), most_bytes).await?;
        self.keep(place, sender);
        Ok(Answered { status, headers: head.headers, body })
    }

    /// An idle connection.
    fn take(&self, place: &str) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.lock();
        let open = idle.get_mut(place)?;
        loop {
            let sender = open.pop()?;
            if sender.is_ready() {
                return Some(sender);
            }
        }
    }

    fn keep(&self, place: &str, sender: SendRequest<Full<Bytes>>) {
        let mut idle = self.lock();
        let open = idle.entry(place.to_owned()).or_default();
        if !sender.is_closed() && open.len() < MOST_IDLE {
            open.push(sender);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<SendRequest<Full<Bytes>>>>> {
        // No critical section leaves the map inconsistent.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self, url: &Url) -> Result<SendRequest<Full<Bytes>>, HttpError> {
        let failed = |error: std::io::Error| HttpError::before(format!("cannot connect: {error}"));
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = url.port_or_known_default().unwrap_or(443);
        let connecting = TcpStream::connect((host.as_str(), port));
        let stream = match timeout(MOST_CONNECT, connecting).await {
            Ok(stream) => stream.map_err(failed)?,
            Err(_) => return Err(HttpError::before("cannot connect: no answer")),
        };
        // Without it small requests wait for acknowledgements.
        let _ = stream.set_nodelay(true);
        if url.scheme() == "http" {
            return shake_hands(stream).await;
        }
        let name = ServerName::try_from(host);
        let name = name.map_err(|_| HttpError::before("the address has no valid host name"))?;
        let connector = TlsConnector::from(Arc::clone(&self.tls));
        match timeout(MOST_CONNECT, connector.connect(name, stream)).await {
            Ok(stream) => shake_hands(stream.map_err(failed)?).await,
            Err(_) => Err(HttpError::before("cannot connect: TLS does not answer")),
        }
    }
}

async fn shake_hands<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, HttpError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = hyper::client::conn::http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES);
    let shaken = builder.handshake(TokioIo::new(stream)).await;
    let (sender, connection) =
        shaken.map_err(|error| HttpError::before(format!("not HTTP: {error}")))?;
    // Ends when the sender is dropped or the server closes.
    tokio::spawn(connection);
    Ok(sender)
}

async fn whole(response: Response<Incoming>, most: usize) -> Result<Vec<u8>, HttpError> {
    let mut body = response.into_body();
    let mut held = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|error| HttpError::after(format!("the response ended early: {error}")))?;
        let Some(data) = frame.data_ref() else { continue };
        if held.len() + data.len() > most {
            let reason = format!("the response has more than {most} bytes");
            return Err(HttpError::after(reason));
        }
        held.extend_from_slice(data);
    }
    Ok(held)
}

/// Scheme, host and port.
pub(crate) fn origin(url: &Url) -> String {
    format!("{}://{}", url.scheme(), authority(url))
}

fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn request_to_another_host_is_refused_before_a_connection() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let other = format!("https://{}/x", listener.local_addr().unwrap());
        let configured = Url::parse("https://configured.example").unwrap();
        let request = |url: &str| Outgoing {
            method: Method::GET,
            url: Url::parse(url).unwrap(),
            headers: Vec::new(),
            body: Bytes::new(),
            limit: Duration::from_secs(5),
            most_bytes: 10,
            reuses: true,
        };
        let http = Http::new(&[&configured], None).unwrap();
        let error = http.send(request(&other)).await.err().unwrap();
        assert!(error.to_string().ends_with("is not one of the configured hosts"), "{error}");
        assert!(!error.may_have_arrived);
        assert!(listener.accept().is_err());
        // The same request reaches the listener if its host is configured.
        let allowed = Http::new(&[&Url::parse(&other).unwrap()], None).unwrap();
        let sending = tokio::spawn(async move { allowed.send(request(&other)).await.map(|_| ()) });
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        drop(listener.accept().await.unwrap());
        assert!(sending.await.unwrap().is_err());
    }
}
