//! Building and sending netlink(7) messages: a header, a family-specific header, and attributes,
//! each of which is a length, a type and a value.

use std::io;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto,
    socket_with,
};

/// Message flags: every message is a request that creates something new.
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;

/// The type of a reply that reports the result of a request, NLMSG_ERROR.
const ANSWER: u16 = 2;
const NESTED: u16 = 1 << 15;
const HEADER_BYTES: usize = 16;

/// What a message does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Begins or ends a batch.
    Frame,
    /// Creates an object that must not exist yet.
    Make,
    /// Appends an object to a list.
    Add,
}

/// Messages that the kernel applies together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    count: u32,
    /// The offset of the flags of the last message that creates an object.
    last: Option<usize>,
}

impl Batch {
    /// Adds a message.
    pub(crate) fn message(
        &mut self,
        kind: u16,
        act: Act,
        head: &[u8],
        build: impl FnOnce(&mut Attributes<'_>),
    ) {
        let start = self.bytes.len();
        let flags = match act {
            Act::Frame => REQUEST,
            Act::Make => REQUEST | CREATE | EXCLUSIVE,
            Act::Add => REQUEST | CREATE | APPEND,
        };
        self.bytes.extend([0; 4]);
        self.bytes.extend(kind.to_ne_bytes());
        if act != Act::Frame {
            self.last = Some(self.bytes.len());
        }
        self.bytes.extend(flags.to_ne_bytes());
        self.bytes.extend(self.count.to_ne_bytes());
        self.bytes.extend([0; 4]);
        self.bytes.extend(head);
        build(&mut Attributes(&mut self.bytes));
        let length = (self.bytes.len() - start) as u32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
        self.count += 1;
    }

    /// Sends the batch and returns once the kernel has applied or refused it.
    pub(crate) fn send(mut self, protocol: Option<Protocol>) -> io::Result<()> {
        if let Some(at) = self.last {
            let flags = u16::from_ne_bytes([self.bytes[at], self.bytes[at + 1]]) | ACKNOWLEDGE;
            self.bytes[at..at + 2].copy_from_slice(&flags.to_ne_bytes());
        }
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        let kernel = SocketAddrNetlink::new(0, 0);
        let sent = sendto(&socket, &self.bytes, SendFlags::empty(), &kernel)?;
        if sent != self.bytes.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        // The kernel applies the batch inside the send, so the reply is already queued. Only the
        // first reply matters: refusals come before the acknowledgement of the last message.
        let mut answer = [0; 512];
        let (_, length) = recv(&socket, &mut answer[..], RecvFlags::DONTWAIT | RecvFlags::TRUNC)?;
        verdict(&answer[..length.min(answer.len())])
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The result in the first reply.
fn verdict(answer: &[u8]) -> io::Result<()> {
    let kind = answer.get(4..6).and_then(|kind| kind.try_into().ok()).map(u16::from_ne_bytes);
    let code = answer.get(HEADER_BYTES..HEADER_BYTES + 4).and_then(|code| code.try_into().ok());
    match (kind, code.map(i32::from_ne_bytes)) {
        (Some(ANSWER), Some(0)) => Ok(()),
        (Some(ANSWER), Some(code)) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Writes attributes to a message.
pub(crate) struct Attributes<'b>(&'b mut Vec<u8>);

impl Attributes<'_> {
    pub(crate) fn bytes(&mut self, kind: u16, value: &[u8]) {
        self.put(kind, |attributes| attributes.0.extend(value));
    }

    /// A number in network byte order.
    pub(crate) fn number(&mut self, kind: u16, value: u32) {
        self.bytes(kind, &value.to_be_bytes());
    }

    pub(crate) fn text(&mut self, kind: u16, value: &str) {
        self.put(kind, |attributes| {
            attributes.0.extend(value.as_bytes());
            attributes.0.push(0);
        });
    }

    pub(crate) fn nested(&mut self, kind: u16, build: impl FnOnce(&mut Attributes<'_>)) {
        self.put(kind | NESTED, |attributes| build(attributes));
    }

    fn put(&mut self, kind: u16, write: impl FnOnce(&mut Attributes<'_>)) {
        let start = self.0.len();
        self.0.extend([0; 2]);
        self.0.extend(kind.to_ne_bytes());
        write(self);
        let length = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        // The next attribute starts at a multiple of four.
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_exclude_padding_and_values_are_padded_to_four_bytes() {
        let mut batch = Batch::default();
        batch.message(0x1234, Act::Make, &[7; 4], |attributes| {
            attributes.text(1, "ab");
            attributes.nested(2, |inner| inner.number(3, 0x0102_0304));
        });
        let mut expected: Vec<u8> = Vec::new();
        expected.extend(40_u32.to_ne_bytes());
        expected.extend(0x1234_u16.to_ne_bytes());
        expected.extend((REQUEST | CREATE | EXCLUSIVE).to_ne_bytes());
        expected.extend([0; 8]);
        expected.extend([7; 4]);
        expected.extend(7_u16.to_ne_bytes());
        expected.extend(1_u16.to_ne_bytes());
        expected.extend(b"ab\0\0");
        expected.extend(12_u16.to_ne_bytes());
        expected.extend((2 | NESTED).to_ne_bytes());
        expected.extend(8_u16.to_ne_bytes());
        expected.extend(3_u16.to_ne_bytes());
        expected.extend([1, 2, 3, 4]);
        assert_eq!(batch.bytes(), expected);
    }

    #[test]
    fn reply_yields_its_error_code_and_a_malformed_reply_is_an_error() {
        let answer = |code: i32| {
            let mut bytes = vec![0; HEADER_BYTES];
            bytes[4..6].copy_from_slice(&ANSWER.to_ne_bytes());
            bytes.extend(code.to_ne_bytes());
            bytes
        };
        assert!(verdict(&answer(0)).is_ok());
        assert_eq!(verdict(&answer(-95)).unwrap_err().raw_os_error(), Some(95));
        assert!(verdict(&answer(0)[..HEADER_BYTES]).is_err());
        assert!(verdict(&[]).is_err());
    }
}
