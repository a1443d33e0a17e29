//! What host and guest say about one program.

use serde::{Deserialize, Serialize};

use crate::text::{Text, bounded_list};

/// Start a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Execute {
    /// The number the host gave it.
    pub execution: u64,
    /// A path, or a bare name that is looked for along the `PATH` of the environment below.
    pub program: Text,
    /// What the program sees as its arguments, its own name first.
    #[serde(deserialize_with = "bounded_list")]
    pub arguments: Vec<Text>,
    /// All of its environment.
    #[serde(deserialize_with = "bounded_list")]
    pub environment: Vec<(Text, Text)>,
    /// Where it starts.
    pub working_directory: Text,
    /// A file to write first, whose bytes come on the stream [`Role::Code`].
    pub code: Option<CodeFile>,
    /// Filters that the program and everything it starts run under, in addition to those of the
    /// guest. They are installed last before it is executed.
    #[serde(deserialize_with = "bounded_list")]
    pub filters: Vec<Filter>,
}

/// One filter of system calls: a classic BPF program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// Each instruction as its `code`, `jt`, `jf` and `k`, see seccomp(2).
    #[serde(deserialize_with = "bounded_list")]
    pub instructions: Vec<(u16, u8, u8, u32)>,
}

/// A file that the guest writes before it starts a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodeFile {
    /// Where.
    pub path: Text,
    /// How many bytes will come.
    pub bytes: u64,
}

/// A program could not be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotStarted {
    /// Which program.
    pub execution: u64,
    /// The kernel's error number.
    pub errno: i32,
    /// The program, directory or code file that it was about.
    pub program: Text,
}

/// A program was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Started {
    /// Which program.
    pub execution: u64,
}

/// A program and its process group are gone, and where no other execution runs everything else
/// inside too. What they wrote may still be on its way; the streams end after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ended {
    /// Which program.
    pub execution: u64,
    /// How the program itself ended.
    pub status: Status,
}

/// Send a signal to one program. One that has ended gets nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signal {
    /// Which program.
    pub execution: u64,
    /// The signal's number.
    pub signal: i32,
}

/// Kill one program and its process group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kill {
    /// Which program.
    pub execution: u64,
}

/// Resize the terminal of one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resize {
    /// Which program.
    pub execution: u64,
    /// How many characters wide.
    pub columns: u16,
    /// How many lines high.
    pub rows: u16,
}

/// The program that a [`Resize`] named has pipes and no terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoTerminal {
    /// Which program.
    pub execution: u64,
}

/// Report on one program. Of one that has ended there is no report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observe {
    /// Which program.
    pub execution: u64,
}

/// What the guest reports of one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    /// Which program.
    pub execution: u64,
    /// Its process id as the guest sees it, once it was started.
    pub process: Option<i32>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// By itself, with this exit code.
    Exited(i32),
    /// Of this signal.
    Signaled(i32),
}

/// The first frame on every stream but the control stream; raw bytes follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamHeader {
    /// Whose stream it is.
    pub execution: u64,
    /// What it carries.
    pub role: Role,
}

/// What a stream carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Standard input, from the host.
    Input,
    /// Standard output, from the guest.
    Output,
    /// Standard error, from the guest.
    Error,
    /// The bytes of the code file, from the host.
    Code,
}
