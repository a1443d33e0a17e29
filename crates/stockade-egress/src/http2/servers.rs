//! Connections to the server of one host, for requests that come at once.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper::Method;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use tokio::sync::{Mutex, watch};

use super::body::Passing;
use super::strict::Strict;
use super::tasks::Handle;
use crate::connection::Connection;
use crate::dial::{DialError, Dialled, Target, dial};
use crate::rules::Spoken;
use crate::tls::Protocols;

/// The longest head of a response.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// The most fields of a response.
pub(super) const MAX_FIELDS: usize = 100;

/// An address that was reached, and whether it is this machine's.
type Place = (IpAddr, bool);

/// The connections to one server.
pub(super) struct Servers {
    pub(super) target: Target,
    pub(super) tasks: Handle,
    state: Mutex<State>,
    place: watch::Sender<Option<Place>>,
}

struct State {
    /// A connection without TLS that no request used yet.
    spare: Option<Dialled>,
    two: Option<http2::SendRequest<Passing>>,
    /// Connections that wait for a request.
    idle: Vec<One>,
}

/// A connection of HTTP/1.1.
pub(super) struct One {
    sender: http1::SendRequest<Passing>,
    /// Whether its request is a HEAD.
    head_only: Arc<AtomicBool>,
}

/// A connection that takes one request.
pub(super) enum Sender {
    One(One),
    Two(http2::SendRequest<Passing>),
}

impl Servers {
    pub(super) fn new(target: Target, spare: Option<Dialled>, tasks: Handle) -> Servers {
        let state = Mutex::new(State { spare, two: None, idle: Vec::new() });
        Servers { target, tasks, state, place: watch::Sender::new(None) }
    }

    /// Where the server was reached, once it was.
    pub(super) fn place(&self) -> watch::Receiver<Option<Place>> {
        self.place.subscribe()
    }

    /// The address of the server.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.place.borrow().map(|(address, _)| address)
    }

    /// A connection for one request, new or kept.
    pub(super) async fn reach(&self, connection: &Connection) -> Result<Sender, DialError> {
        let mut state = self.state.lock().await;
        if let Some(two) = state.two.as_ref().filter(|two| !two.is_closed()) {
            return Ok(Sender::Two(two.clone()));
        }
        while let Some(mut one) = state.idle.pop() {
            if one.sender.ready().await.is_ok() {
                return Ok(Sender::One(one));
            }
        }
        let shared = &connection.shared;
        let Some(opening) = &shared.opening else {
            return Err(DialError::Unreachable("this session opens no connections".to_owned()));
        };
        let dialled = match state.spare.take() {
            Some(spare) => spare,
            None => dial(shared, &self.target, Some(Spoken::Opened), &connection.meter).await?,
        };
        let secured = opening.secure(connection, &self.target, dialled, Protocols::OneOrTwo);
        let (dialled, is_two) = secured.await?;
        self.place.send_replace(Some((dialled.address, dialled.is_own)));
        let stream = dialled.outside.into_stream();
        let failed = |error: hyper::Error| {
            DialError::Unreachable(format!("no HTTP with {}: {error}", self.target.host))
        };
        if is_two {
            let mut builder = http2::Builder::new(self.tasks.clone());
            builder.max_header_list_size(MAX_HEAD_BYTES as u32);
            builder.initial_stream_window_size(super::STREAM_WINDOW);
            builder.initial_connection_window_size(super::CONNECTION_WINDOW);
            let (two, served) = builder.handshake(TokioIo::new(stream)).await.map_err(failed)?;
            self.tasks.start(async move {
                let _ = served.await;
            });
            state.two = Some(two.clone());
            return Ok(Sender::Two(two));
        }
        let mut builder = http1::Builder::new();
        builder.max_buf_size(MAX_HEAD_BYTES).max_headers(MAX_FIELDS);
        let head_only = Arc::new(AtomicBool::new(false));
        let stream = TokioIo::new(Strict::new(stream, Arc::clone(&head_only)));
        let (sender, served) = builder.handshake(stream).await.map_err(failed)?;
        self.tasks.start(async move {
            let _ = served.await;
        });
        Ok(Sender::One(One { sender, head_only }))
    }

    /// Keeps a connection for the next request.
    pub(super) async fn keep(&self, sender: Sender) {
        match sender {
            Sender::One(one) if !one.sender.is_closed() => self.state.lock().await.idle.push(one),
            Sender::One(_) | Sender::Two(_) => {}
        }
    }
}

impl Sender {
    pub(super) fn is_two(&self) -> bool {
        matches!(self, Sender::Two(_))
    }

    pub(super) async fn send(
        &mut self,
        request: hyper::Request<Passing>,
    ) -> hyper::Result<hyper::Response<Incoming>> {
        match self {
            Sender::One(one) => {
                one.head_only.store(request.method() == Method::HEAD, Ordering::Relaxed);
                one.sender.send_request(request).await
            }
            Sender::Two(two) => two.send_request(request).await,
        }
    }
}

/// Resolves to the place of the server once it was reached.
pub(super) async fn reached(mut place: watch::Receiver<Option<Place>>) -> Place {
    loop {
        let found = *place.borrow_and_update();
        match found {
            Some(place) => return place,
            None if place.changed().await.is_err() => std::future::pending::<()>().await,
            None => {}
        }
    }
}

/// One server's connections are shared by the streams of one connection.
pub(super) type SharedServers = Arc<Servers>;
