//! The record of a session, kept outside its sandbox: typed events, numbered and chained by hashes,
//! one line of JSON each.
//!
//! A [`Recorder`] writes a stream and a [`Reader`] reads it. The hash of a line covers all its
//! other bytes and, through the hash of the previous line, all lines before it.

mod directory;
mod egress;
mod event;
mod execution;
mod file_operation;
mod glance;
mod identity;
mod line;
mod list;
mod place;
mod port;
mod prune;
mod reader;
mod recorder;
mod secret;
mod session;
mod shorten;
mod sink;
mod summary;
mod time;
mod tool_call;
mod verify;
mod writer;

pub use egress::{Egress, Inspection, SecretAct, SecretUse, Via};
pub use event::{Body, Event};
pub use execution::{
    Denied, ExecutionEnded, ExecutionStarted, LimitHit, OutputCounts, UsageCounts, VerdictGiven,
};
pub use file_operation::FileOperation;
pub use glance::{Glance, glance};
pub use identity::{IdentityError, SessionId};
pub use line::{Digest, LineError, MAX_LINE_BYTES, decode, encode};
pub use list::{ListError, Listed, list};
pub use place::{PlaceError, RecordDirectory, default_places, settle};
pub use port::PortEvent;
pub use prune::{PruneError, Pruned, prune};
pub use reader::{ReadError, Reader, Tail};
pub use recorder::{MAX_RECORD_BYTES, Recorder};
pub use secret::SecretReplaced;
pub use session::{CodeDigest, Command, ImageUsed, PolicyDigest, SessionEnded, SessionStarted};
pub use sink::{Sink, Unrecorded};
pub use summary::{Latest, Summary};
pub use time::Time;
pub use tool_call::ToolCall;
pub use verify::{Verdict, Verification, verify};
pub use writer::WriteError;
