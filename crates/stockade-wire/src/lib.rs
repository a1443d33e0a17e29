//! Messages and framing between the host and the guest.
//!
//! ```text
//! host ═══ one connection, multiplexed by yamux ═══ guest
//!   1st stream          control: HostMessage frames ─▶, ◀─ GuestMessage frames
//!   others of the host  one StreamHeader frame, then the raw bytes of one stream of one execution,
//!                       one operation on files, see FileRequest, or one connection, see
//!                       PortRequest
//!   those of the guest  one StreamOpening frame, then the raw bytes of one connection of a program
//! ```
//! The socket transport of a wall on this machine may send the rest of a fast download through a
//! pipe, see [`SpliceHeader`].
//! The guest opens streams only if the wall was built with network access or tools.
//! A frame is a length (`u32`, little endian, at most [`MAX_FRAME_BYTES`]) and that many bytes of
//! JSON holding exactly one message. The host may send its hello, an [`Execute`] and the streams of
//! that execution without waiting, and streams may arrive before the message that they belong to.
//! Many executions run concurrently; the host bounds their number, and every message about one
//! names it. The crate opens no socket, and it treats every byte it reads as hostile.

mod execution;
mod exit;
mod file_path;
mod files;
mod frame;
mod handshake;
mod machine;
mod message;
mod multiplex;
mod opening;
mod ports;
mod splice;
mod text;

pub use execution::{
    CodeFile, Ended, Execute, ExecutionStarted, Filter, Kill, NoTerminal, NotStarted, Observe,
    Observed, Resize, Resized, Role, Signal, Status, StreamHeader, WindowSize,
};
pub use exit::GuestExit;
pub use file_path::{PathBytes, PathBytesError};
pub use files::{
    FileChange, FileChangeKind, FileDone, FileEntry, FileFailure, FileFault, FileKind, FileReply,
    FileRequest, FileStat, FileWrite, MAX_CHUNK_BYTES, MAX_FILE_MESSAGE_BYTES, StatePlace,
};
pub use frame::{
    FrameError, MAX_FRAME_BYTES, encode, read_message, read_message_within, write_message,
};
pub use handshake::{HandshakeError, answer, check_reply, greet};
pub use machine::{
    MACHINE_CGROUP, MACHINE_DISK, MACHINE_MODULES, MACHINE_PORT, MachineCopy, MachineLayer,
    MachineLimits, MachinePlace, MachinePlan, MachineReady, MachineStart, MachineTools,
};
pub use message::{
    GuestMessage, GuestVersion, GuestVersionError, Heartbeat, Hello, HelloReply, HostMessage,
    Nonce, PROTOCOL_VERSION,
};
pub use multiplex::{Ends, Header, Headers, Heard};
pub use opening::{
    DENIAL_SOCKET, LAUNCHED_DENIAL_SOCKET, NAME_SERVER, NAMED, Opening, PROXY, RELAY,
    StreamOpening, TOOL_SOCKET,
};
pub use ports::{PortReply, PortRequest};
pub use splice::SpliceHeader;
pub use text::{Text, TextError};
