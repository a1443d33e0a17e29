//! Inspects the yamux frame headers below the multiplexer to track how streams end.
//!
//! The yamux library signals a half-close and a reset, but not everything that TCP does: an end
//! that has half-closed a stream can no longer reset it, and a reader cannot distinguish a reset
//! from an end of stream. This module detects resets and sends the missing ones as ordinary yamux
//! frames.

use std::collections::HashMap;

/// The fields of a frame header that this module needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The type of the frame.
    pub kind: u8,
    /// The flags: [`Header::FIRST`], [`Header::LAST`], [`Header::RESET`].
    pub flags: u16,
    /// The stream it belongs to.
    pub stream: u32,
    /// The length of the body for [`Header::DATA`], else another number.
    pub length: u32,
}

impl Header {
    /// A frame with a body.
    pub const DATA: u8 = 0;
    /// A frame that enlarges the window of a stream.
    pub const WINDOW: u8 = 1;
    /// A frame that ends the connection.
    pub const GO_AWAY: u8 = 3;
    /// The first frame of a stream.
    pub const FIRST: u16 = 1;
    /// The last frame of one direction of a stream.
    pub const LAST: u16 = 4;
    /// The last frame of a stream in both directions.
    pub const RESET: u16 = 8;

    const BYTES: usize = 12;

    /// Whether the multiplexer opens a stream for this frame. It does not if the frame also resets
    /// the stream, or belongs to no stream.
    pub fn opens_stream(self) -> bool {
        matches!(self.kind, Header::DATA | Header::WINDOW)
            && self.says(Header::FIRST)
            && !self.says(Header::RESET)
    }

    fn says(self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// Parses the frame headers in a byte stream and skips the bodies.
#[derive(Debug, Default)]
pub struct Headers {
    header: Vec<u8>,
    /// How many bytes of the current frame's body are still missing.
    body: usize,
}

impl Headers {
    /// Parses the next bytes, and calls `seen` for each header. An error from `seen` stops the
    /// parsing.
    pub fn follow<E>(
        &mut self,
        mut bytes: &[u8],
        mut seen: impl FnMut(Header) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            let skipped = self.body.min(bytes.len());
            self.body -= skipped;
            bytes = &bytes[skipped..];
            let wanted = (Header::BYTES - self.header.len()).min(bytes.len());
            self.header.extend_from_slice(&bytes[..wanted]);
            bytes = &bytes[wanted..];
            // Version, kind, flags, stream and length, the numbers big endian.
            if let [_, kind, i, j, a, b, c, d, e, f, g, h] = self.header[..] {
                let flags = u16::from_be_bytes([i, j]);
                let stream = u32::from_be_bytes([a, b, c, d]);
                let length = u32::from_be_bytes([e, f, g, h]);
                self.header.clear();
                self.body = if kind == Header::DATA { length as usize } else { 0 };
                seen(Header { kind, flags, stream, length })?;
            }
        }
        Ok(())
    }

    /// Whether the next byte is the first byte of a frame.
    pub fn is_between_frames(&self) -> bool {
        self.header.is_empty() && self.body == 0
    }
}

/// Tracks how the streams that carry connections end.
#[derive(Debug, Default)]
pub struct Ends {
    streams: HashMap<u32, End>,
    resets: Vec<u32>,
}

#[derive(Debug, Default)]
struct End {
    /// This side has sent its last frame.
    said: bool,
    /// How the other side ended the stream.
    heard: Option<Heard>,
    /// The stream was dropped; send a reset once this side's last frame has passed.
    abandoned: bool,
}

/// How the other side ended a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A half-close: it sent all its bytes.
    End,
    /// A reset.
    Reset,
}

impl Ends {
    /// Tracks a stream until this side drops it.
    pub fn hold(&mut self, stream: u32) {
        self.streams.entry(stream).or_default();
    }

    /// Records an incoming frame.
    pub fn hear(&mut self, header: Header) {
        if let Some(end) = self.streams.get_mut(&header.stream) {
            let heard = match header {
                _ if header.says(Header::RESET) => Heard::Reset,
                _ if header.says(Header::LAST) => Heard::End,
                _ => return,
            };
            // The first one counts; a reset after an end only asks this side to stop sending.
            end.heard.get_or_insert(heard);
        }
    }

    /// Records an outgoing frame.
    pub fn say(&mut self, header: Header) {
        if header.says(Header::LAST)
            && let Some(end) = self.streams.get_mut(&header.stream)
        {
            end.said = true;
            if end.abandoned {
                self.streams.remove(&header.stream);
                self.resets.push(header.stream);
            }
        }
    }

    /// How the other side ended a stream, if it did.
    pub fn heard(&self, stream: u32) -> Option<Heard> {
        self.streams.get(&stream).and_then(|end| end.heard)
    }

    /// Stops tracking a stream; `closed` is whether this side had half-closed it. Where the
    /// multiplexer sends the other side no reset although it needs one, this sends it.
    pub fn release(&mut self, stream: u32, closed: bool) {
        let Some(end) = self.streams.get_mut(&stream) else { return };
        match (closed, end.heard) {
            // The other side still sends, and would wait for window updates that never come.
            (true, None) if !end.said => {
                end.abandoned = true;
                return;
            }
            // Without a reset the other side would take this for an orderly end.
            (true, None) | (false, Some(Heard::End)) => self.resets.push(stream),
            (true, Some(_)) | (false, None | Some(Heard::Reset)) => {}
        }
        self.streams.remove(&stream);
    }

    /// Passes the pending reset frames to `send`; call it only between two frames.
    pub fn take_resets(&mut self, mut send: impl FnMut([u8; 12])) {
        for stream in self.resets.drain(..) {
            let [a, b, c, d] = stream.to_be_bytes();
            let [high, low] = Header::RESET.to_be_bytes();
            send([0, Header::DATA, high, low, a, b, c, d, 0, 0, 0, 0]);
        }
    }
}

#[cfg(test)]
#[path = "multiplex_tests.rs"]
mod tests;
