//! The host's end of the launcher's control socket.

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use stockade_launcher::{Plan, Receiver, Report};
use tokio::io::Interest;

/// The socket on which the launcher reports. Closing it, or shutting it down, ends the sandbox.
pub(crate) struct Control {
    readiness: tokio::net::UnixStream,
    socket: UnixStream,
    receiver: Receiver,
}

impl Control {
    /// Sends the plan, with what the launcher is to hold on to as long as the sandbox lives.
    pub(crate) fn open(
        mut socket: UnixStream,
        plan: &Plan,
        kept: &[std::os::fd::BorrowedFd<'_>],
    ) -> io::Result<Control> {
        stockade_launcher::send(&mut socket, plan, kept)?;
        socket.set_nonblocking(true)?;
        let readiness = tokio::net::UnixStream::from_std(socket.try_clone()?)?;
        Ok(Control { readiness, socket, receiver: Receiver::default() })
    }

    /// The next report; `None` when the launcher has ended.
    pub(crate) async fn report(&mut self) -> io::Result<Option<(Report, Vec<OwnedFd>)>> {
        let Control { readiness, socket, receiver } = self;
        readiness.async_io(Interest::READABLE, || receiver.receive(socket)).await
    }

    /// Tells the launcher to end everything. Reports still come.
    pub(crate) fn end(&self) {
        // A launcher that is gone has ended everything already.
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}
