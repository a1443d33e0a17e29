//! Requests of programs: made on the host, through the network gate, which decides about host,
//! method and path. The wall encrypts the requests, so it describes them to the gate.

use std::io;
use std::sync::{Arc, OnceLock};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper_util::rt::TokioIo;
use stockade_policy::{Denial, Host, Method, UrlPath};
use stockade_provider::Destination;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{AlertDescription, ClientConfig, Error as TlsError, RootCertStore};
use url::Url;

use crate::bindings::stockade::python::host::{Failure, FailureKind, Header, Request, Response};
use crate::guest::HostCalls;

/// The longest body of a response.
const MAX_BODY: usize = 32 << 20;
/// The longest head of a response.
const MAX_HEAD: usize = 256 << 10;
/// The most headers of a request.
const MAX_HEADERS: usize = 200;
/// The longest URL.
const MAX_URL: usize = 16 << 10;

/// Headers that describe the connection, which the host makes.
const OWN_HEADERS: [HeaderName; 9] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::EXPECT,
    header::PROXY_AUTHORIZATION,
];

/// A request, checked.
struct Checked {
    host: Host,
    port: u16,
    is_tls: bool,
    /// The value of the header `Host`.
    authority: HeaderValue,
    request: hyper::Request<Full<Bytes>>,
    method: Method,
    path: UrlPath,
}

/// Makes one request.
pub(crate) async fn send(calls: &HostCalls, request: Request) -> Result<Response, Failure> {
    let checked = check(request)?;
    let (host, port) = (&checked.host, checked.port);
    let denial = || calls.policy.judge_request(host, port, &checked.method, &checked.path).denial();
    if !calls.carries().network {
        // Without a gate no host can be allowed.
        let denial = denial().ok_or_else(|| failed("this sandbox has no network gate"))?;
        let failure = denied(&denial);
        calls.deny(denial);
        return Err(failure);
    }
    let (method, path) = (checked.method.clone(), checked.path.clone());
    let destination = Destination::Request { host: host.clone(), port, method, path };
    let stream = calls.open(destination).ok_or_else(|| failed("too many connections are open"))?;
    let result = match checked.is_tls {
        false => converse(stream, checked.request, &checked.authority).await,
        true => match connect_tls(host, stream).await {
            Ok(stream) => converse(stream, checked.request, &checked.authority).await,
            Err(failure) => Err(failure),
        },
    };
    match result {
        // The gate answers a refused request so; a server may answer so too.
        Ok(response) if response.status != 403 => Ok(response),
        // The gate has recorded it.
        other => match denial() {
            Some(denial) => Err(denied(&denial)),
            None => other,
        },
    }
}

fn check(request: Request) -> Result<Checked, Failure> {
    if request.url.len() > MAX_URL || request.headers.len() > MAX_HEADERS {
        return Err(invalid("the URL or the list of headers is too long"));
    }
    let url = Url::parse(&request.url).map_err(|error| invalid(&format!("not a URL: {error}")))?;
    let is_tls = match url.scheme() {
        "https" => true,
        "http" => false,
        other => return Err(invalid(&format!("{other} is not http or https"))),
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("a URL with a user or a password; pass the header Authorization"));
    }
    let named = url.host_str().ok_or_else(|| invalid("the URL has no host"))?;
    let host = Host::parse(named).map_err(|error| invalid(&error.to_string()))?;
    let port = url.port_or_known_default().ok_or_else(|| invalid("the URL has no port"))?;
    let method = Method::parse(&request.method).map_err(|error| invalid(&error.to_string()))?;
    if matches!(method.as_str(), "CONNECT" | "TRACE") {
        return Err(invalid("CONNECT and TRACE are not requests of a program"));
    }
    let path = UrlPath::parse(url.path()).map_err(|error| invalid(&error.to_string()))?;
    let target = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let authority = match url.port() {
        Some(port) => format!("{named}:{port}"),
        None => named.to_owned(),
    };
    let authority =
        HeaderValue::from_str(&authority).map_err(|_| invalid("the host is not ASCII"))?;
    let mut built = hyper::Request::new(Full::new(Bytes::from(request.body)));
    *built.method_mut() = hyper::Method::from_bytes(method.as_str().as_bytes())
        .map_err(|_| invalid("the method is not a token"))?;
    *built.uri_mut() = target.parse().map_err(|_| invalid("the path cannot be requested"))?;
    *built.headers_mut() = headers(&request.headers)?;
    Ok(Checked { host, port, is_tls, authority, request: built, method, path })
}

fn headers(wanted: &[Header]) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for Header { name, value } in wanted {
        let bad = |_| invalid(&format!("the header {name:?} is not valid"));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad(()))?;
        if OWN_HEADERS.contains(&name) {
            return Err(invalid(&format!("the host sets the header {name}")));
        }
        headers.append(name, HeaderValue::from_str(value).map_err(|_| bad(()))?);
    }
    Ok(headers)
}

async fn connect_tls<S>(
    host: &Host,
    stream: S,
) -> Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static, Failure>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let name = match host {
        Host::Name(name) => ServerName::try_from(name.as_str().to_owned())
            .map_err(|_| invalid("the host is not a name that a certificate can have"))?,
        Host::Address(address) => ServerName::from(*address),
    };
    let connector = TlsConnector::from(trust()?);
    connector.connect(name, stream).await.map_err(|error| tls_failure(&error))
}

/// Verifies servers as this machine does.
fn trust() -> Result<Arc<ClientConfig>, Failure> {
    static TRUST: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = TRUST.get() {
        return Ok(Arc::clone(config));
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(failed("the host has no certificates of authorities; install ca-certificates"));
    }
    let provider = Arc::new(rustls_graviola::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&format!("TLS cannot be used: {error}")))?;
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    Ok(Arc::clone(TRUST.get_or_init(|| config)))
}

fn tls_failure(error: &io::Error) -> Failure {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
    match cause {
        Some(TlsError::AlertReceived(AlertDescription::AccessDenied)) => Failure {
            kind: FailureKind::Denied,
            message: "the network gate refused the connection".to_owned(),
        },
        _ => failed(&format!("no TLS connection: {error}")),
    }
}

async fn converse<S>(
    stream: S,
    mut request: hyper::Request<Full<Bytes>>,
    authority: &HeaderValue,
) -> Result<Response, Failure>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let broken = |error: hyper::Error| failed(&format!("no valid response: {error}"));
    request.headers_mut().insert(header::HOST, authority.clone());
    request.headers_mut().entry(header::USER_AGENT).or_insert(HeaderValue::from_static("stockade"));
    let mut builder = hyper::client::conn::http1::Builder::new();
    builder.max_buf_size(MAX_HEAD);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let _connection = AbortOnDrop(tokio::spawn(async move {
        // Its failure is that of the request.
        let _ = connection.await;
    }));
    let response = sender.send_request(request).await.map_err(broken)?;
    let (head, body) = response.into_parts();
    let body = read_body(body).await?;
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = head.headers.iter();
    let headers =
        headers.map(|(name, value)| Header { name: name.to_string(), value: text(value) });
    Ok(Response {
        status: head.status.as_u16(),
        reason: head.status.canonical_reason().unwrap_or_default().to_owned(),
        headers: headers.collect(),
        body,
    })
}

async fn read_body(mut body: Incoming) -> Result<Vec<u8>, Failure> {
    let mut held = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| failed(&format!("the response broke off: {error}")))?;
        let Some(data) = frame.data_ref() else { continue };
        if held.len() + data.len() > MAX_BODY {
            let message = format!("the response has more than {MAX_BODY} bytes");
            return Err(Failure { kind: FailureKind::TooLarge, message });
        }
        held.extend_from_slice(data);
    }
    Ok(held)
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn denied(denial: &Denial) -> Failure {
    let Denial { target, why, how_to_allow, .. } = denial;
    let message = format!("the policy refuses {target}: {why} (to allow it: {how_to_allow})");
    Failure { kind: FailureKind::Denied, message }
}

fn invalid(message: &str) -> Failure {
    Failure { kind: FailureKind::Invalid, message: message.to_owned() }
}

fn failed(message: &str) -> Failure {
    Failure { kind: FailureKind::Failed, message: message.to_owned() }
}
