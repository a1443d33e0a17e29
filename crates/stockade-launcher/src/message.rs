//! Messages on the control socket: a length, JSON, and descriptors as ancillary data.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The maximum length: large enough for a plan with filters and the files of many tools.
const MAX_BYTES: usize = 16 << 20;

/// The maximum number of descriptors with one message.
const MAX_DESCRIPTORS: usize = 16;

/// Sends a value.
pub fn send(
    socket: &mut UnixStream,
    value: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let message = encode(value)?;
    let sent = send_some(socket, &message, descriptors)?;
    socket.write_all(&message[sent..])
}

/// Encodes a value with its length.
pub fn encode(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; size_of::<u32>()];
    serde_json::to_writer(&mut bytes, value)?;
    let length = bytes.len() - size_of::<u32>();
    if length > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a message is too long"));
    }
    let length = length as u32;
    bytes[..size_of::<u32>()].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

/// Sends as much of a message as the socket accepts, with the descriptors as SCM_RIGHTS on its
/// first byte. Returns the number of bytes sent.
pub fn send_some(
    socket: &UnixStream,
    message: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
    }
    // A closed peer must return EPIPE, not raise SIGPIPE.
    let flags = SendFlags::NOSIGNAL;
    Ok(rustix::net::sendmsg(socket, &[IoSlice::new(message)], &mut beside, flags)?)
}

/// Receives a value and its descriptors; `None` if the stream ends before a value starts.
pub fn receive<T: DeserializeOwned>(
    socket: &mut UnixStream,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    Receiver::default().receive(socket)
}

/// Receives one value in parts. On a non-blocking socket, call [`Receiver::receive`] again when the
/// socket is readable.
#[derive(Debug, Default)]
pub struct Receiver {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl Receiver {
    /// Continues receiving. Returns `None` if the stream ends before a value starts.
    pub fn receive<T: DeserializeOwned>(
        &mut self,
        socket: &UnixStream,
    ) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        loop {
            let missing = match self.bytes.first_chunk::<{ size_of::<u32>() }>() {
                None => size_of::<u32>() - self.bytes.len(),
                Some(header) => {
                    let length = u32::from_le_bytes(*header) as usize;
                    if length > MAX_BYTES {
                        let problem = "a message is too long";
                        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
                    }
                    size_of::<u32>() + length - self.bytes.len()
                }
            };
            if missing == 0 {
                let value = serde_json::from_slice(&self.bytes[size_of::<u32>()..])?;
                self.bytes.clear();
                return Ok(Some((value, std::mem::take(&mut self.descriptors))));
            }
            let mut chunk = [0; 16 << 10];
            let wanted = missing.min(chunk.len());
            match receive_some(socket, &mut chunk[..wanted], &mut self.descriptors)? {
                0 if self.bytes.is_empty() => return Ok(None),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                more => self.bytes.extend_from_slice(&chunk[..more]),
            }
        }
    }
}

fn receive_some(
    socket: &UnixStream,
    into: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let flags = RecvFlags::CMSG_CLOEXEC;
        match rustix::net::recvmsg(socket, &mut [IoSliceMut::new(into)], &mut beside, flags) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    Ok(received.bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn value_arrives_with_its_descriptors() {
        let (mut here, mut there) = UnixStream::pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        send(&mut here, &vec!["a"; 40_000], &[writer.as_fd()]).unwrap();
        drop(writer);
        let (value, descriptors): (Vec<String>, _) = receive(&mut there).unwrap().unwrap();
        assert_eq!((value.len(), descriptors.len()), (40_000, 1));
        drop(descriptors);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
        drop(here);
        assert!(receive::<u8>(&mut there).unwrap().is_none());
    }

    #[test]
    fn value_over_the_receive_limit_is_not_sent() {
        let (mut here, _there) = UnixStream::pair().unwrap();
        let error = send(&mut here, &"x".repeat(MAX_BYTES), &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn header_length_over_the_limit_is_refused_before_the_body_is_read() {
        let (mut here, mut there) = UnixStream::pair().unwrap();
        here.write_all(&u32::MAX.to_le_bytes()).unwrap();
        assert_eq!(receive::<u8>(&mut there).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
