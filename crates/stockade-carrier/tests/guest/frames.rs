//! yamux frames, as a hostile guest writes them.

pub(crate) const DATA: u8 = 0;
pub(crate) const WINDOW: u8 = 1;
pub(crate) const PING: u8 = 2;
pub(crate) const SYN: u8 = 1;
pub(crate) const ACK: u8 = 2;
pub(crate) const FIN: u8 = 4;
pub(crate) const RST: u8 = 8;

/// One yamux frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, length: u32, body: &[u8]) -> Vec<u8> {
    let (stream, length) = (stream.to_be_bytes(), length.to_be_bytes());
    [&[0, kind, 0, flags][..], &stream, &length, body].concat()
}

pub(crate) fn data(stream: u32, body: &[u8]) -> Vec<u8> {
    frame(DATA, 0, stream, body.len() as u32, body)
}
