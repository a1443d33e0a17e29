//! The cgroup leaves of executions, which the host creates and sends.
//!
//! ```text
//! sent by the host ──▶ received, with the request that names it ──▶ the program enters it
//! ```
//! The host sends the files of a leaf before the request, so they are in the socket when the request
//! arrives, and the guest never waits for them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// The maximum number of leaves kept for later requests. The host sends each right before its
/// request, so only leaves of requests that it could not send remain.
const MOST: usize = 256;

/// The maximum number of files of one leaf: more than there are hierarchies.
const MOST_FILES: usize = 8;

/// The leaves that have arrived, by number.
pub(crate) struct Leaves {
    socket: OwnedFd,
    arrived: RefCell<BTreeMap<u64, Vec<OwnedFd>>>,
}

impl Leaves {
    /// Receives leaves on a socket that keeps the bounds of messages.
    pub(crate) fn new(socket: OwnedFd) -> Leaves {
        Leaves { socket, arrived: RefCell::default() }
    }

    /// The files of a leaf. A program enters the leaf by writing `0` to each.
    pub(crate) fn take(&self, number: u64) -> io::Result<Vec<OwnedFd>> {
        let mut arrived = self.arrived.borrow_mut();
        loop {
            if let Some(files) = arrived.remove(&number) {
                return Ok(files);
            }
            let (number, files) = self.receive()?;
            arrived.insert(number, files);
            if arrived.len() > MOST {
                arrived.pop_first();
            }
        }
    }

    /// Copies of the files of a leaf, which also stay for the request that names it.
    pub(crate) fn copy(&self, number: u64) -> io::Result<Vec<OwnedFd>> {
        let files = self.take(number)?;
        let copies = files.iter().map(OwnedFd::try_clone).collect();
        self.arrived.borrow_mut().insert(number, files);
        copies
    }

    /// Receives one leaf without waiting.
    fn receive(&self) -> io::Result<(u64, Vec<OwnedFd>)> {
        let mut number = [0; size_of::<u64>()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
        loop {
            let mut came = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
            let bytes = &mut [IoSliceMut::new(&mut number)];
            let received = match recvmsg(&self.socket, bytes, &mut came, flags) {
                Err(Errno::INTR) => continue,
                received => received?.bytes,
            };
            let mut files = Vec::new();
            for message in came.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                    files.extend(descriptors);
                }
            }
            return match received == number.len() && !files.is_empty() {
                true => Ok((u64::from_le_bytes(number), files)),
                // The host has closed the socket, or the kernel dropped the files because this
                // process has no free descriptor.
                false => Err(Errno::BADF.into()),
            };
        }
    }
}
