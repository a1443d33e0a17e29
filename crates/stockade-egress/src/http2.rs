//! HTTP/2 on connections that end at the gate. Each stream carries one request: judged like any
//! other, written anew for the server in HTTP/2 or HTTP/1.1, and answered.

mod body;
mod message;
mod servers;
mod stream;
mod strict;
mod tasks;

use std::convert::Infallible;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

pub(crate) use self::message::request_of;
use self::servers::Servers;
pub(crate) use self::tasks::Tasks;
use crate::connection::Connection;
use crate::dial::{Dialled, Target};
use crate::rules::Spoken;

/// The most requests at once on one connection.
const MAX_STREAMS: u32 = 100;
/// The longest head of a request, by the count of HTTP/2.
const MAX_HEAD_BYTES: u32 = 64 * 1024;
/// How much a sender may send before the receiver has taken it.
const STREAM_WINDOW: u32 = 1 << 18;
const CONNECTION_WINDOW: u32 = 1 << 20;

/// Serves requests until the program closes the connection or a rule ends it.
pub(crate) async fn serve<S>(
    connection: &Connection,
    stream: S,
    target: &Target,
    dialled: Option<Dialled>,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let shared = &connection.shared;
    let seen = shared.rules.subscribe();
    // Dropping it ends every task of the connection.
    let tasks = Tasks::default();
    let servers = Arc::new(Servers::new(target.clone(), dialled, tasks.handle()));
    let (own, place) = (Arc::new(connection.divided()), servers.place());
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (own, servers) = (Arc::clone(&own), Arc::clone(&servers));
        async move { Ok::<_, Infallible>(stream::serve(&own, &servers, request).await) }
    });
    let served = http2::Builder::new(tasks.handle())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD_BYTES)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .serve_connection(TokioIo::new(stream), service);
    let refused = async {
        let place = servers::reached(place).await;
        shared.refused(seen, &target.host, target.port, place, Spoken::Opened).await
    };
    tokio::select! {
        biased;
        denial = refused => {
            let mut record = connection.request_account();
            record.target(&target.host, Some(target.port));
            record.denied(&denial);
        }
        // Its failure is that of its requests, which have records of their own.
        _ = served => {}
    }
}
