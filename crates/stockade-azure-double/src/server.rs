//! Reads requests, logs them, injects faults, and sends responses.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, LOCATION};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::sleep;
use url::form_urlencoded;

use crate::fault::Fault;
use crate::log::Logged;
use crate::routes;
use crate::world::World;

/// A request that was read whole.
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The scheme, host and port that the client used.
    pub(crate) origin: String,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        Some(self.headers.get(name)?.to_str().ok()?.to_owned())
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    fn logged(&self, status: u16) -> Logged {
        let content_type = self.header("content-type");
        let body = match content_type.as_deref() {
            _ if self.body.is_empty() => Value::Null,
            Some("application/json") => self.json().unwrap_or(json!("not JSON")),
            _ => json!({ "bytes": self.body.len() }),
        };
        Logged {
            method: self.method.clone(),
            host: self.header("host").unwrap_or_default(),
            path: self.path.clone(),
            query: self.query.clone(),
            body,
            content_type,
            status,
        }
    }
}

/// A response before faults.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
    pub(crate) is_json: bool,
}

impl Answer {
    pub(crate) fn json(status: u16, body: &Value) -> Answer {
        let body = Bytes::from(body.to_string());
        Answer { status, headers: Vec::new(), body, is_json: true }
    }

    pub(crate) fn nothing(status: u16) -> Answer {
        Answer { status, headers: Vec::new(), body: Bytes::new(), is_json: false }
    }

    pub(crate) fn bytes(body: Vec<u8>) -> Answer {
        Answer { status: 200, headers: Vec::new(), body: Bytes::from(body), is_json: false }
    }

    pub(crate) fn error(status: u16, code: &str, message: &str) -> Answer {
        Answer::json(status, &json!({ "error": { "code": code, "message": message } }))
    }
}

/// Serves one connection.
pub(crate) async fn serve<S>(stream: S, world: Arc<World>, scheme: &'static str)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| one(request, Arc::clone(&world), scheme));
    let connection = hyper::server::conn::http1::Builder::new();
    // A client that goes away is no error.
    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
}

/// The body of a response, all of it or less than its head announces.
#[derive(Default)]
pub(crate) struct Reply {
    data: Option<Bytes>,
    is_complete: bool,
}

impl Reply {
    fn complete(data: Bytes) -> Reply {
        Reply { data: Some(data).filter(|data| !data.is_empty()), is_complete: true }
    }

    fn part(data: Bytes) -> Reply {
        Reply { data: Some(data), is_complete: false }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.data.take().map(|data| Ok(Frame::data(data))))
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.data, self.is_complete) {
            (Some(data), true) => SizeHint::with_exact(data.len() as u64),
            (None, true) => SizeHint::with_exact(0),
            (_, false) => SizeHint::default(),
        }
    }
}

type Sent = Result<Response<Reply>, Infallible>;

async fn one(request: Request<Incoming>, world: Arc<World>, scheme: &'static str) -> Sent {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let query = head.uri.query().unwrap_or_default();
    let host = head.headers.get("host").and_then(|host| host.to_str().ok()).unwrap_or_default();
    let asked = Asked {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
        origin: format!("{scheme}://{host}"),
        headers: head.headers,
        body,
    };
    let operation = routes::operation(&asked);
    let fault = world.fault(operation);
    let index = {
        let mut inner = world.lock();
        inner.log.push(asked.logged(0));
        inner.log.len() - 1
    };
    let acts = fault
        .as_ref()
        .is_none_or(|(fault, takes_effect)| *takes_effect || matches!(fault, Fault::Slow(_)));
    let answer = match acts {
        true => Some(routes::answer(&asked, &world).await),
        false => None,
    };
    let response = match fault {
        None => plain(answer.unwrap_or_else(|| Answer::nothing(500))),
        Some((fault, _)) => faulty(fault, answer).await,
    };
    if let Some(logged) = world.lock().log.get_mut(index) {
        logged.status = response.status().as_u16();
    }
    Ok(response)
}

fn plain(answer: Answer) -> Response<Reply> {
    let mut response = Response::builder().status(answer.status);
    if answer.is_json {
        response = response.header(CONTENT_TYPE, "application/json");
    }
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    response.body(Reply::complete(answer.body)).unwrap_or_default()
}

async fn faulty(fault: Fault, answer: Option<Answer>) -> Response<Reply> {
    match fault {
        Fault::Status(status, retry_after) => {
            let mut answer = Answer::error(status, "Injected", "a fault of the double");
            if let Some(seconds) = retry_after {
                answer.headers.push(("retry-after", seconds.to_string()));
            }
            plain(answer)
        }
        Fault::Slow(pause) => {
            sleep(pause).await;
            plain(answer.unwrap_or_else(|| Answer::nothing(500)))
        }
        // Announces more than it sends: hyper closes the connection early.
        Fault::HalfClosed => Response::builder()
            .header(CONTENT_LENGTH, "1000000")
            .body(Reply::part(Bytes::from_static(b"{\"id\": \"sb-")))
            .unwrap_or_default(),
        Fault::Malformed => Response::builder()
            .header(CONTENT_TYPE, "application/json")
            .body(Reply::complete(Bytes::from_static(b"{\"id\": [")))
            .unwrap_or_default(),
        Fault::Redirect(to) => Response::builder()
            .status(302)
            .header(LOCATION, to)
            .body(Reply::complete(Bytes::new()))
            .unwrap_or_default(),
    }
}
