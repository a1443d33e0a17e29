//! The event of one operation on files.

use serde::{Deserialize, Serialize};

use crate::shorten::cut_text;

/// One operation of the host on the files inside, recorded when it has ended in any way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileOperation {
    /// The operation as one word.
    pub operation: String,
    /// The path, with bytes that are not UTF-8 as escapes.
    pub path: String,
    /// How many bytes of content or of an archive were read or written.
    pub bytes: u64,
    /// [`FileOperation::DONE`], [`FileOperation::STOPPED`], or the kind of the error.
    pub outcome: String,
}

impl FileOperation {
    /// The outcome of an operation that succeeded.
    pub const DONE: &str = "done";

    /// The outcome of an operation whose caller did not read to the end.
    pub const STOPPED: &str = "stopped";

    /// The maximum size of a recorded path.
    pub const MAX_PATH_BYTES: usize = 4096;

    /// Cuts the path to this limit.
    #[must_use]
    pub fn bounded(mut self) -> FileOperation {
        cut_text(&mut self.path, FileOperation::MAX_PATH_BYTES);
        self
    }
}
