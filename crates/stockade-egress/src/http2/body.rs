//! Bodies, passed on as they arrive: counted, searched for secrets, and bounded in time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::header::HeaderMap;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::message::{fields_of, headers_of};
use crate::meter::Meter;
use crate::secrets::{Misplaced, Screen};

/// Where the frames of a body go.
pub(super) type Frames = mpsc::Sender<Result<Frame<Bytes>, io::Error>>;

const SILENT: &str = "nothing was sent or received for too long";

/// A body that another task fills, or one that is known.
pub(super) enum Passing {
    /// Nothing more follows.
    Known(Option<Bytes>),
    /// Frames from a task.
    Piped(mpsc::Receiver<Result<Frame<Bytes>, io::Error>>),
}

impl Passing {
    pub(super) fn empty() -> Passing {
        Passing::Known(None)
    }

    pub(super) fn whole(bytes: Vec<u8>) -> Passing {
        Passing::Known(Some(Bytes::from(bytes)))
    }
}

impl Body for Passing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut *self {
            Passing::Known(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Passing::Piped(frames) => frames.poll_recv(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Passing::Known(None))
    }
}

/// Why a body did not pass whole.
pub(super) enum Broken {
    /// It has a placeholder.
    Misplaced(Misplaced),
    /// The sender or the receiver broke off, or a limit was reached.
    Ended(String),
}

/// Which way a body goes, which decides what is counted as what.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Out,
    Back,
}

/// Passes a body on until its end.
pub(super) async fn pump(
    mut from: Incoming,
    to: Frames,
    (meter, way): (Arc<Meter>, Way),
    screen: &mut Screen,
    idle: Duration,
) -> Result<(), Broken> {
    let result = pass(&mut from, &to, (&meter, way), screen, idle).await;
    if result.is_err() {
        // The receiver must not take what it has for the whole.
        let _ = to.send(Err(io::Error::other("the body broke off"))).await;
    }
    result
}

async fn pass(
    from: &mut Incoming,
    to: &Frames,
    (meter, way): (&Meter, Way),
    screen: &mut Screen,
    idle: Duration,
) -> Result<(), Broken> {
    loop {
        let frame = match timeout(idle, from.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => {
                return Err(Broken::Ended(format!("the body broke off: {error}")));
            }
            Ok(None) => break,
            Err(_) => return Err(Broken::Ended(SILENT.to_owned())),
        };
        match frame.into_data() {
            Ok(data) => {
                count(meter, way, data.len()).await.map_err(Broken::Ended)?;
                let passing = match screen.is_off() {
                    true => data,
                    false => Bytes::from(screen.pass(&data).map_err(Broken::Misplaced)?),
                };
                if !passing.is_empty() {
                    send(to, Frame::data(passing), idle).await?;
                }
            }
            Err(frame) => {
                let Ok(trailers) = frame.into_trailers() else { continue };
                flush(screen, to, idle).await?;
                let trailers = passing_trailers(&trailers, screen)?;
                return send(to, Frame::trailers(trailers), idle).await;
            }
        }
    }
    flush(screen, to, idle).await
}

/// Sends what the search has held.
async fn flush(screen: &mut Screen, to: &Frames, idle: Duration) -> Result<(), Broken> {
    let rest = screen.finish();
    if rest.is_empty() { Ok(()) } else { send(to, Frame::data(Bytes::from(rest)), idle).await }
}

async fn send(to: &Frames, frame: Frame<Bytes>, idle: Duration) -> Result<(), Broken> {
    match timeout(idle, to.send(Ok(frame))).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Broken::Ended("the receiver broke off".to_owned())),
        Err(_) => Err(Broken::Ended(SILENT.to_owned())),
    }
}

pub(super) async fn count(meter: &Meter, way: Way, bytes: usize) -> Result<(), String> {
    let counter = if way == Way::Out { &meter.sent } else { &meter.received };
    meter.count(counter, bytes as u64).await.map_err(|error| error.to_string())
}

/// The trailers that may follow a body.
fn passing_trailers(trailers: &HeaderMap, screen: &mut Screen) -> Result<HeaderMap, Broken> {
    let invalid = || Broken::Ended("its trailers are not valid".to_owned());
    let mut fields = fields_of(trailers).of_trailer();
    screen.fields(&mut fields).map_err(Broken::Misplaced)?;
    headers_of(&fields).ok_or_else(invalid)
}
