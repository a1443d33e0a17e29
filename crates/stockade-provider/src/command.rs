//! A program as a guest starts it.

use crate::TerminalSize;

/// A program as the guest of a Linux wall starts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// A path inside, or a bare name that the guest searches for in the `PATH` of the environment.
    pub program: String,
    /// The arguments, including the program's own name first.
    pub arguments: Vec<String>,
    /// The complete environment.
    pub environment: Vec<(String, String)>,
    /// The directory in which the program starts.
    pub working_directory: String,
    /// A file to write first: its path inside and its bytes.
    pub code: Option<(String, Vec<u8>)>,
    /// The path of the code of the next command, if an interpreter may be started for it ahead of
    /// time.
    pub next_code: Option<String>,
    /// A terminal of this size as its standard streams; without one they are pipes.
    pub terminal: Option<TerminalSize>,
}
