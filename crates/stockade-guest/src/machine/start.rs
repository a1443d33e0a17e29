//! What the guest exchanges with the host before the link.

use std::fs::File;
use std::io::{self, Read, Write};

use futures_util::FutureExt;
use futures_util::io::AllowStdIo;
use stockade_wire::{MachineReady, MachineStart, encode, read_message};

use super::cannot;

/// The most bytes of all files of tools.
const MOST_TOOL_BYTES: u64 = 16 << 20;

/// A file of the directory for tools, by its path below it.
pub(super) type ToolFile = (String, Vec<u8>);

/// Reports that the machine has booted. It may be saved from now on, until [`read`] returns.
pub(super) fn report_ready(port: &mut File) -> io::Result<()> {
    let frame = encode(&MachineReady {}).map_err(io::Error::other)?;
    port.write_all(&frame).map_err(cannot("report to the host"))
}

/// Waits for the host's start, and reads the files of tools. The copies follow.
pub(super) fn read(port: &mut File) -> io::Result<(MachineStart, Vec<ToolFile>)> {
    let mut blocking = AllowStdIo::new(&mut *port);
    let message = read_message::<MachineStart, _>(&mut blocking).now_or_never();
    let start = message.expect("a blocking reader is never pending");
    let start = start.map_err(io::Error::other).map_err(cannot("read the host's start"))?;
    if start.tools.iter().map(|(_, bytes)| *bytes).sum::<u64>() > MOST_TOOL_BYTES {
        return Err(io::Error::other("the files of tools are too large"));
    }
    let mut tools = Vec::new();
    for (path, bytes) in &start.tools {
        let mut content = vec![0; usize::try_from(*bytes).map_err(io::Error::other)?];
        port.read_exact(&mut content).map_err(cannot(format_args!("read the file {path}")))?;
        tools.push((path.clone(), content));
    }
    Ok((start, tools))
}
