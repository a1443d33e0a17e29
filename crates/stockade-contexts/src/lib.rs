//! Contexts: interpreters that keep their state between calls.
//!
//! ```text
//! host ── start, with the script as its code ──▶ interpreter
//!      ◀── HELLO ──                              it can no longer be traced or read by others
//!      ── token ──▶
//!      ── call ──▶
//!      ◀── output, and in it pieces of messages that begin with the token ──
//!      ◀── done, on both output streams ──
//! ```
//! The token is random and known only to the host and to this interpreter. Output that does not
//! contain it is output; so nothing that a program prints is a message. All bytes from inside are
//! hostile: lengths are bounded before anything is kept, and messages are parsed strictly.

mod kernel;
mod message;
mod name;
mod pieces;
mod result;
mod view;

pub use kernel::{Call, HELLO, KERNEL_FILE, Token, call_frame, kernel, token_frame};
pub use message::{Message, MessageError, message};
pub use name::{ContextName, ContextNameError};
pub use pieces::{Item, MAX_MESSAGE_BYTES, Pieces};
pub use result::{CellError, ContextResult, MimeBundle};
pub use view::{ContextReport, ContextView};
