//! Reads and writes frames.

use std::io::{self, Read, Write};
use std::sync::{Mutex, PoisonError};

use crate::protocol::{head, parse_head};

/// Standard output, which belongs to frames.
static OUTPUT: Mutex<()> = Mutex::new(());

/// Sends one frame to the host.
pub(crate) fn send(kind: u8, content: &[u8]) -> io::Result<()> {
    let head = head(kind, content.len())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a frame is too long"))?;
    let _one = OUTPUT.lock().unwrap_or_else(PoisonError::into_inner);
    let mut output = io::stdout().lock();
    output.write_all(&head)?;
    output.write_all(content)?;
    output.flush()
}

/// Receives one frame of the host; `None` at the end.
pub(crate) fn receive(input: &mut impl Read) -> io::Result<Option<(u8, Vec<u8>)>> {
    let mut head = [0; 5];
    match input.read_exact(&mut head) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let (kind, length) = parse_head(head)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a frame is too long"))?;
    let mut content = vec![0; length];
    input.read_exact(&mut content)?;
    Ok(Some((kind, content)))
}
