//! What is looked at below the multiplexer: the headers of its frames, and how streams end.
//!
//! The multiplexer says the end of one direction and the reset of a stream, but not everything that
//! TCP says: whoever has ended its own direction can no longer tell the other to stop, and a reset
//! looks like an end to whoever reads. Both are seen and said here, in the same frames.

use std::collections::HashMap;

/// The part of a frame's header that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame is.
    pub kind: u8,
    /// What it says besides.
    pub flags: u16,
    /// The stream it belongs to.
    pub stream: u32,
    /// The length of its body, or another number.
    pub length: u32,
}

impl Header {
    /// A frame with a body.
    pub const DATA: u8 = 0;
    /// A frame that gives a stream more room.
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

    /// Whether the multiplexer takes this for the beginning of a stream: not where the same frame
    /// resets it, and not in a frame that belongs to no stream.
    pub fn opens_stream(self) -> bool {
        matches!(self.kind, Header::DATA | Header::WINDOW)
            && self.says(Header::FIRST)
            && !self.says(Header::RESET)
    }

    fn says(self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// Follows a stream of frames from header to header.
#[derive(Debug, Default)]
pub struct Headers {
    header: Vec<u8>,
    /// How much of the current frame's body is still to come.
    body: usize,
}

impl Headers {
    /// Looks at bytes that pass, and calls `seen` for each header. What it returns stops that.
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

    /// Whether the next byte would be the first of a frame.
    pub fn is_between_frames(&self) -> bool {
        self.header.is_empty() && self.body == 0
    }
}

/// How the streams end that carry connections.
#[derive(Debug, Default)]
pub struct Ends {
    streams: HashMap<u32, End>,
    resets: Vec<u32>,
}

#[derive(Debug, Default)]
struct End {
    /// The last frame of this side's direction has passed.
    said: bool,
    /// How the other side has ended.
    heard: Option<Heard>,
    /// Nobody holds the stream any more, and the other side is to stop once the end has passed.
    abandoned: bool,
}

/// How the other side of a stream has ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It has said all that it had to say.
    End,
    /// It has broken off.
    Reset,
}

impl Ends {
    /// Follows a stream from now on, until it is let go.
    pub fn hold(&mut self, stream: u32) {
        self.streams.entry(stream).or_default();
    }

    /// Notes a frame that comes in.
    pub fn hear(&mut self, header: Header) {
        if let Some(end) = self.streams.get_mut(&header.stream) {
            let heard = match header {
                _ if header.says(Header::RESET) => Heard::Reset,
                _ if header.says(Header::LAST) => Heard::End,
                _ => return,
            };
            // What comes first is what happened; a reset after an end only says to stop.
            end.heard.get_or_insert(heard);
        }
    }

    /// Notes a frame that goes out.
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

    /// How the other side has ended a stream, if it has.
    pub fn heard(&self, stream: u32) -> Option<Heard> {
        self.streams.get(&stream).and_then(|end| end.heard)
    }

    /// Lets go of a stream; `closed` says whether its own direction was closed before. The other
    /// side learns of it by what the multiplexer says, and where that says too little by a reset.
    pub fn let_go(&mut self, stream: u32, closed: bool) {
        let Some(end) = self.streams.get_mut(&stream) else { return };
        match (closed, end.heard) {
            // The other side is still talking, and must not wait for somebody to listen.
            (true, None) if !end.said => {
                end.abandoned = true;
                return;
            }
            // And here it would take the multiplexer's word for an end in good order.
            (true, None) | (false, Some(Heard::End)) => self.resets.push(stream),
            (true, Some(_)) | (false, None | Some(Heard::Reset)) => {}
        }
        self.streams.remove(&stream);
    }

    /// Frames that are to go out, between two others.
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
