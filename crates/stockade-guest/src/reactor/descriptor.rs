//! Descriptors with asynchronous reads and writes.

use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::waits::Token;
use super::{Direction, Reactor};

/// A non-blocking file. Dropping it closes it.
pub(crate) struct Descriptor {
    file: Rc<OwnedFd>,
    token: Token,
    reactor: Reactor,
}

impl Descriptor {
    pub(crate) fn new(file: OwnedFd, reactor: &Reactor) -> io::Result<Descriptor> {
        fcntl_setfl(&file, fcntl_getfl(&file)? | OFlags::NONBLOCK)?;
        Ok(Descriptor::new_nonblocking(file, reactor))
    }

    /// Wraps a file that is non-blocking already.
    pub(crate) fn new_nonblocking(file: OwnedFd, reactor: &Reactor) -> Descriptor {
        let token = reactor.waits.borrow_mut().token();
        Descriptor { file: Rc::new(file), token, reactor: reactor.clone() }
    }

    pub(crate) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        poll_fn(|context| self.poll_read(context, buffer)).await
    }

    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = poll_fn(|context| self.poll_write(context, bytes)).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    pub(crate) fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.attempt(context, Direction::Read, || rustix::io::read(&*self.file, &mut *buffer))
    }

    /// Reads from a socket, and passes the descriptors received by SCM_RIGHTS to `beside`.
    pub(crate) fn poll_receive(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
        mut beside: impl FnMut(OwnedFd),
    ) -> Poll<io::Result<usize>> {
        self.attempt(context, Direction::Read, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut came = RecvAncillaryBuffer::new(&mut space);
            let bytes = &mut [IoSliceMut::new(buffer)];
            let received = recvmsg(&*self.file, bytes, &mut came, RecvFlags::CMSG_CLOEXEC)?;
            for message in came.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                    descriptors.for_each(&mut beside);
                }
            }
            Ok(received.bytes)
        })
    }

    pub(crate) fn poll_write(
        &self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.attempt(context, Direction::Write, || rustix::io::write(&*self.file, bytes))
    }

    /// Writes several buffers in one call.
    pub(crate) fn poll_write_all_of(
        &self,
        context: &mut Context<'_>,
        places: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.attempt(context, Direction::Write, || rustix::io::writev(&*self.file, places))
    }

    /// Tries a call; on EAGAIN registers the waker for the next readiness.
    pub(crate) fn attempt<T>(
        &self,
        context: &mut Context<'_>,
        direction: Direction,
        mut call: impl FnMut() -> rustix::io::Result<T>,
    ) -> Poll<io::Result<T>> {
        if !self.reactor.may_try() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            match call() {
                Ok(value) => return Poll::Ready(Ok(value)),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {
                    let mut waits = self.reactor.waits.borrow_mut();
                    let waker = context.waker();
                    return match waits.wake_when_ready(&self.file, self.token, direction, waker) {
                        Ok(()) => Poll::Pending,
                        Err(error) => Poll::Ready(Err(error)),
                    };
                }
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.reactor.waits.borrow_mut().forget(&self.file, self.token);
    }
}
