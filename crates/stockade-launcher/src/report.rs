//! What the launcher tells the process that started it.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

/// The longest message, in bytes: large enough for a plan with filters, small enough to hold.
const MAX_MESSAGE_BYTES: u64 = 4 << 20;

/// Which part of a plan a step stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Before the clone.
    Outside,
    /// The clone and the maps of ids.
    Birth,
    /// Inside.
    Inside,
}

/// The first act that failed. Nothing was executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("the wall could not be built: {step} failed{}: {reason}", at(.target))]
pub struct Refusal {
    /// Where in the plan.
    pub phase: Phase,
    /// Its place in the list, counted from zero.
    pub index: usize,
    /// The step's name.
    pub step: String,
    /// What it was done to; empty when there is nothing to name.
    pub target: String,
    /// The kernel's error number, where it was the kernel that refused.
    pub errno: Option<i32>,
    /// The error in words.
    pub reason: String,
}

fn at(target: &str) -> String {
    if target.is_empty() { String::new() } else { format!(" at {target}") }
}

/// A message on the control stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The first process inside exists; the id is the host's.
    Born {
        /// Its process id outside.
        process: i32,
    },
    /// Every step but the last was done; the program starts next.
    Ready,
    /// A step failed.
    Refused(Refusal),
}

impl Report {
    /// Writes one report.
    pub fn write(&self, stream: &mut impl Write) -> io::Result<()> {
        write(stream, self)
    }

    /// Reads one report; `None` at the end of the stream.
    pub fn read(stream: &mut impl Read) -> io::Result<Option<Report>> {
        read(stream)
    }
}

/// Writes a value as its length and its JSON.
pub(crate) fn write(stream: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let body = serde_json::to_vec(value)?;
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_le_bytes()[..], &body].concat())
}

/// Reads a value; `None` where the stream ends before one begins.
pub(crate) fn read<T: serde::de::DeserializeOwned>(
    stream: &mut impl Read,
) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    let mut read = 0;
    while read < length.len() {
        match stream.read(&mut length[read..])? {
            0 if read == 0 => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => read += more,
        }
    }
    let length = u64::from(u32::from_le_bytes(length));
    if length > MAX_MESSAGE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"));
    }
    let mut body = Vec::new();
    stream.take(length).read_to_end(&mut body)?;
    Ok(Some(serde_json::from_slice(&body)?))
}
