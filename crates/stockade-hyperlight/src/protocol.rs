//! Frames between the host and the worker of one micro-VM.
//!
//! ```text
//! host                                    worker
//!   LOAD sizes, functions ─────────────▶  starts the machine, loads CPython, keeps a snapshot
//!   ◀───────────── READY times, or FAILED why
//!   RUN program ───────────────────────▶  runs it
//!   ◀───────────── CALL function, parameters
//!   ANSWER result ─────────────────────▶  ... any number of calls
//!   STOP ──────────────────────────────▶  interrupts the machine
//!   ◀───────────── DONE how, result
//!   ◀───────────── CLEAN time             the snapshot is restored, the next program can run
//! ```
//! A frame is its length (4 bytes, little-endian), its kind (1 byte) and its content. The host
//! trusts nothing that a worker sends: it may be the program's by now.

// Both sides compile this file, and neither uses all of it.
#![allow(dead_code, reason = "the worker has a workspace of its own and includes this file")]

/// The longest frame: the longest code, answer or body of a response, with its envelope.
pub(crate) const MAX_FRAME: usize = 16 << 20;
/// The most parameters of a function of the host.
pub(crate) const MAX_PARAMETERS: usize = 6;

/// From the host: start the machine.
pub(crate) const LOAD: u8 = 1;
/// From the host: run a program.
pub(crate) const RUN: u8 = 2;
/// From the host: the result of a call.
pub(crate) const ANSWER: u8 = 3;
/// From the host: end the running program.
pub(crate) const STOP: u8 = 4;

/// From the worker: the machine waits for a program.
pub(crate) const READY: u8 = 65;
/// From the worker: the machine cannot be started.
pub(crate) const FAILED: u8 = 66;
/// From the worker: a call of a function of the host.
pub(crate) const CALL: u8 = 67;
/// From the worker: the program has ended.
pub(crate) const DONE: u8 = 68;
/// From the worker: the machine is as it was before the program.
pub(crate) const CLEAN: u8 = 69;

/// How a program ended: its function returned.
pub(crate) const RETURNED: u8 = 0;
/// How a program ended: by [`STOP`].
pub(crate) const STOPPED: u8 = 1;
/// How a program ended: the machine's memory was used up.
pub(crate) const NO_MEMORY: u8 = 2;
/// How a program ended: the machine faulted.
pub(crate) const FAULTED: u8 = 3;

/// The sizes of a machine, in bytes, and the functions of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) memory: u64,
    pub(crate) heap: u64,
    pub(crate) buffer: u64,
    /// Names with the number of their parameters.
    pub(crate) functions: Vec<(String, u8)>,
}

impl Load {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for size in [self.memory, self.heap, self.buffer] {
            bytes.extend(size.to_le_bytes());
        }
        for (name, parameters) in &self.functions {
            bytes.push(*parameters);
            put(&mut bytes, name.as_bytes());
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Load> {
        let mut rest = bytes;
        let mut size = || {
            let (first, others) = rest.split_first_chunk::<8>()?;
            rest = others;
            Some(u64::from_le_bytes(*first))
        };
        let (memory, heap, buffer) = (size()?, size()?, size()?);
        let mut load = Load { memory, heap, buffer, functions: Vec::new() };
        while let Some((parameters, others)) = rest.split_first() {
            rest = others;
            let name = String::from_utf8(take(&mut rest)?.to_vec()).ok()?;
            load.functions.push((name, *parameters));
        }
        Some(load)
    }
}

/// One call of a function of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// The function's place in [`Load::functions`].
    pub(crate) function: u16,
    pub(crate) parameters: Vec<Vec<u8>>,
}

impl Call {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.function.to_le_bytes().to_vec();
        for parameter in &self.parameters {
            put(&mut bytes, parameter);
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Call> {
        let (function, mut rest) = bytes.split_first_chunk::<2>()?;
        let mut parameters = Vec::new();
        while !rest.is_empty() {
            if parameters.len() == MAX_PARAMETERS {
                return None;
            }
            parameters.push(take(&mut rest)?.to_vec());
        }
        Some(Call { function: u16::from_le_bytes(*function), parameters })
    }
}

/// The head of a frame, if its content is not too long.
pub(crate) fn head(kind: u8, content: usize) -> Option<[u8; 5]> {
    let length = u32::try_from(content).ok().filter(|_| content <= MAX_FRAME)?;
    let [a, b, c, d] = length.to_le_bytes();
    Some([a, b, c, d, kind])
}

/// The kind and the length that a head announces.
pub(crate) fn parse_head(head: [u8; 5]) -> Option<(u8, usize)> {
    let [a, b, c, d, kind] = head;
    let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).ok()?;
    (length <= MAX_FRAME).then_some((kind, length))
}

fn put(bytes: &mut Vec<u8>, part: &[u8]) {
    let length = u32::try_from(part.len()).expect("the machine's buffers are smaller than 4 GiB");
    bytes.extend(length.to_le_bytes());
    bytes.extend(part);
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, others) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (part, others) = others.split_at_checked(length)?;
    *rest = others;
    Some(part)
}
