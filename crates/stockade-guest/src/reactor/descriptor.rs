//! Descriptors that a future can read and write.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::{Direction, Reactor};

/// An open file that does not block. Dropping it closes it.
pub(crate) struct Descriptor {
    file: Rc<OwnedFd>,
    reactor: Reactor,
}

impl Descriptor {
    pub(crate) fn new(file: OwnedFd, reactor: &Reactor) -> io::Result<Descriptor> {
        fcntl_setfl(&file, fcntl_getfl(&file)? | OFlags::NONBLOCK)?;
        Ok(Descriptor { file: Rc::new(file), reactor: reactor.clone() })
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

    pub(crate) fn poll_write(
        &self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.attempt(context, Direction::Write, || rustix::io::write(&*self.file, bytes))
    }

    fn attempt(
        &self,
        context: &mut Context<'_>,
        direction: Direction,
        mut call: impl FnMut() -> rustix::io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            match call() {
                Ok(bytes) => return Poll::Ready(Ok(bytes)),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {
                    self.reactor.wake_when_ready(&self.file, direction, context.waker());
                    return Poll::Pending;
                }
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.reactor.forget(&self.file);
    }
}
