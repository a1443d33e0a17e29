//! The host's end of the launcher's control socket.

use std::io;
use std::net::Shutdown;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use stockade_launcher::{Ending, Receiver, Report};
use tokio::io::Interest;

/// How long the launcher may take to release a sandbox before that is an error.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long the launcher may take to report the end of the first process.
const SOON: Duration = Duration::from_secs(1);

/// The socket on which the launcher reports. Closing it, or shutting it down, ends the sandbox.
pub(crate) struct LauncherSocket {
    readiness: tokio::net::UnixStream,
    socket: UnixStream,
    receiver: Mutex<Receiver>,
}

impl LauncherSocket {
    /// Wraps the host's end of the socket.
    pub(crate) fn open(socket: UnixStream) -> io::Result<LauncherSocket> {
        socket.set_nonblocking(true)?;
        let readiness = tokio::net::UnixStream::from_std(socket.try_clone()?)?;
        Ok(LauncherSocket { readiness, socket, receiver: Mutex::default() })
    }

    /// Sends an encoded message without blocking the thread; SCM_RIGHTS carries the descriptors
    /// with its first byte.
    pub(crate) async fn send(
        &self,
        message: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let mut sent = 0;
        while sent < message.len() {
            let with_it = if sent == 0 { descriptors } else { &[] };
            let send = || stockade_launcher::send_some(&self.socket, &message[sent..], with_it);
            sent += self.readiness.async_io(Interest::WRITABLE, send).await?;
        }
        Ok(())
    }

    /// The next report; `None` when the launcher has ended.
    pub(crate) async fn report(&self) -> io::Result<Option<(Report, Vec<OwnedFd>)>> {
        let receive = || {
            let mut receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
            receiver.receive(&self.socket)
        };
        self.readiness.async_io(Interest::READABLE, receive).await
    }

    /// How the first process ended, if the launcher reports it soon. It reports this once.
    pub(crate) async fn ending(&self) -> Option<Ending> {
        let ending = async {
            loop {
                match self.report().await {
                    Ok(Some((Report::Ended(ending), _))) => return Some(ending),
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => return None,
                }
            }
        };
        tokio::time::timeout(SOON, ending).await.ok().flatten()
    }

    /// Ends everything and waits, without blocking the thread, until the launcher has released it
    /// and its end of the socket closes.
    pub(crate) async fn ended(&self) -> io::Result<()> {
        self.end();
        let ended = async {
            while self.report().await?.is_some() {}
            Ok(())
        };
        match tokio::time::timeout(PATIENCE, ended).await {
            Ok(ended) => ended,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Makes the launcher end everything, by a half-close. Reports still arrive.
    pub(crate) fn end(&self) {
        // Fails if the launcher is gone, which has then ended everything.
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}
