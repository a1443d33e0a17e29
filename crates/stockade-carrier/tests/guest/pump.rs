//! A pump between a link and a guest: it copies bytes, and no descriptors.

use std::os::fd::OwnedFd;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::net::unix::pipe;
use tokio::sync::watch;

/// Stops and resumes a pump; dropping it has no effect on the pump.
pub(crate) struct Pump(watch::Sender<bool>);

impl Pump {
    /// Stops the copying, and keeps both ends open.
    pub(crate) fn stop(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn resume(&self) {
        self.0.send_replace(false);
    }
}

/// A stream whose bytes the pump copies to `writer` and from `reader`.
pub(crate) fn pumped(
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
) -> (DuplexStream, Pump) {
    let (host, pump_end) = duplex(64 << 10);
    let (from_host, to_host) = split(pump_end);
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(pump(from_host, writer, stopped.clone()));
    tokio::spawn(pump(reader, to_host, stopped));
    (host, Pump(stop))
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut stopped: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 32 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        while *stopped.borrow_and_update() {
            if stopped.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}

/// The reading end of a pipe.
pub(crate) fn reader(pipe: OwnedFd) -> pipe::Receiver {
    pipe::Receiver::from_owned_fd(nonblocking(pipe)).unwrap()
}

/// The writing end of a pipe.
pub(crate) fn writer(pipe: OwnedFd) -> pipe::Sender {
    pipe::Sender::from_owned_fd(nonblocking(pipe)).unwrap()
}

fn nonblocking(pipe: OwnedFd) -> OwnedFd {
    let flags = rustix::fs::fcntl_getfl(&pipe).unwrap();
    rustix::fs::fcntl_setfl(&pipe, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    pipe
}
