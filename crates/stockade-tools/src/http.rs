//! A tool that is an HTTP endpoint: arguments as the request body, the result as the response body.
//! Redirections are not followed: only the file decides where arguments go.

use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::connect::Connect;
use crate::fault::Fault;
use crate::json::{JsonError, read};
use crate::run::{Call, Run};
use crate::task::AbortOnDrop;
use crate::words::harmless;

/// The most bytes of a response head.
const HEAD_BYTES: usize = 64 << 10;

/// The most bytes of an error body that are read, and how many characters of them are shown.
const ERROR_BYTES: usize = 4096;
const ERROR_SHOWN: usize = 400;

/// Where and how a tool's requests are sent.
#[derive(Clone)]
pub(crate) struct Endpoint {
    /// The name or address to connect to.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) connect: Arc<dyn Connect>,
    /// The TLS configuration; without it the connection is plain text.
    pub(crate) tls: Option<(ServerName<'static>, Arc<ClientConfig>)>,
    /// The value of the header `Host`.
    pub(crate) authority: HeaderValue,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
}

/// The most concurrent connections of one tool; further calls wait.
const MOST_CONNECTIONS: usize = 64;

/// Sends a request for each call.
pub(crate) struct HttpTool {
    endpoint: Arc<Endpoint>,
    permits: Arc<Semaphore>,
}

impl HttpTool {
    pub(crate) fn new(endpoint: Endpoint) -> HttpTool {
        HttpTool {
            endpoint: Arc::new(endpoint),
            permits: Arc::new(Semaphore::new(MOST_CONNECTIONS)),
        }
    }
}

impl fmt::Debug for HttpTool {
    /// Without the headers, which may hold secrets.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("HttpTool");
        shown.field("host", &self.endpoint.host).finish_non_exhaustive()
    }
}

impl Run for HttpTool {
    fn run(&self, call: Call) -> BoxFuture<'static, Result<Value, Fault>> {
        let (endpoint, permits) = (Arc::clone(&self.endpoint), Arc::clone(&self.permits));
        Box::pin(async move {
            let _permit = permits.acquire_owned().await;
            let stream = endpoint.connect.connect(&endpoint.host, endpoint.port).await;
            let stream = stream.map_err(|error| unreachable(&error))?;
            let _ = stream.set_nodelay(true);
            match &endpoint.tls {
                None => converse(&endpoint, stream, call).await,
                Some((name, config)) => {
                    let connector = TlsConnector::from(Arc::clone(config));
                    let stream = connector.connect(name.clone(), stream).await;
                    let stream = stream.map_err(|error| unreachable(&error))?;
                    converse(&endpoint, stream, call).await
                }
            }
        })
    }
}

async fn converse<S>(endpoint: &Endpoint, stream: S, call: Call) -> Result<Value, Fault>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = hyper::client::conn::http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES);
    let (mut sender, connection) =
        builder.handshake(TokioIo::new(stream)).await.map_err(|error| not_http(&error))?;
    // Aborted when this call ends in any way.
    let _connection = AbortOnDrop(tokio::spawn(connection));
    let body = Full::new(Bytes::from(call.arguments.to_string()));
    let mut request = Request::new(body);
    *request.method_mut() = endpoint.method.clone();
    *request.uri_mut() = endpoint
        .target
        .parse()
        .map_err(|_| Fault::broken("the tool's address cannot be asked for"))?;
    let headers = request.headers_mut();
    headers.insert(HOST, endpoint.authority.clone());
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static("stockade"));
    for (name, value) in &endpoint.headers {
        headers.insert(name, value.clone());
    }
    let response = sender.send_request(request).await.map_err(|error| not_http(&error))?;
    answer(response, call.bounds).await
}

async fn answer(response: Response<Incoming>, bounds: crate::json::Bounds) -> Result<Value, Fault> {
    let status = response.status();
    if status.is_success() {
        let body = read_body(response.into_body(), bounds.bytes).await?;
        let body =
            body.ok_or_else(|| Fault::result(&JsonError::TooLarge { most: bounds.bytes }))?;
        if body.is_empty() {
            return Ok(Value::Null);
        }
        return read(&body, bounds).map_err(|error| Fault::result(&error));
    }
    if status.is_redirection() {
        let message =
            format!("the tool's server answered {status}, and redirections are not followed");
        return Err(Fault::failed(message));
    }
    let mut body = response.into_body();
    let mut text = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        text.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        if text.len() >= ERROR_BYTES {
            break;
        }
    }
    text.truncate(ERROR_BYTES);
    let text = harmless(String::from_utf8_lossy(&text).trim(), ERROR_SHOWN);
    let colon = if text.is_empty() { "" } else { ": " };
    Err(Fault::failed(format!("the tool's server answered {status}{colon}{text}")))
}

/// The whole body, unless it is too large.
async fn read_body(mut body: Incoming, most: usize) -> Result<Option<Vec<u8>>, Fault> {
    let mut held = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| not_http(&error))?;
        let Some(data) = frame.data_ref() else { continue };
        if held.len() + data.len() > most {
            return Ok(None);
        }
        held.extend_from_slice(data);
    }
    Ok(Some(held))
}

fn unreachable(error: &std::io::Error) -> Fault {
    Fault::broken(format!("the tool's server cannot be reached: {error}"))
}

fn not_http(error: &hyper::Error) -> Fault {
    Fault::broken(format!("the tool's server did not answer as HTTP: {error}"))
}
