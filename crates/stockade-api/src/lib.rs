//! Requests to a session and its replies, as the command line, the Python package and the server
//! use them.
//!
//! ```text
//! client ── Request ──▶ supervisor          one connection per request
//!        ── code bytes, then their end ──▶  only for code
//!        ◀── Reply::Started ──              a program runs
//!        ── input, signals, resizes ──▶
//!        ◀── output ──
//!        ◀── Reply::Ended, or another Reply ──
//! ```
//! A frame is its kind (one byte), a length (`u32`, little endian, at most [`MAX_FRAME_BYTES`]) and
//! that many bytes.

mod contexts;
mod files;
mod frame;
mod ports;
mod reply;
mod request;
mod state;

pub use contexts::{
    CellError, ContextName, ContextNameError, ContextParams, ContextReport, ContextResult,
    ContextView, CreateContextParams, MimeBundle, RunInContextParams,
};
pub use files::{
    FileChangeView, FileMode, FileParams, FileResult, FileView, PathBytes, PathBytesError,
};
pub use frame::{
    Frame, FrameError, LogChunk, MAX_FRAME_BYTES, ResultPart, ResultParts, read_frame, write_frame,
};
pub use ports::{PortParams, PortView};
pub use reply::{DenialView, ExecutionView, Failure, NetworkView, Reply, SessionView, StatsView};
pub use request::{
    ControlMessage, ExecuteParams, ProgramParams, Request, SecretText, TerminalParams,
};
pub use state::{CheckpointView, RestoreParams, StoreParams};
