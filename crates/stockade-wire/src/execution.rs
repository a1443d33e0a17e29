//! Messages about one program.

use serde::{Deserialize, Serialize};

use crate::text::{Text, bounded_list};

/// Start a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Execute {
    /// The number that the host assigned.
    pub execution: u64,
    /// A path, or a bare name that the guest searches for in the `PATH` of `environment`.
    pub program: Text,
    /// The arguments, including the program's own name first.
    #[serde(deserialize_with = "bounded_list")]
    pub arguments: Vec<Text>,
    /// The complete environment.
    #[serde(deserialize_with = "bounded_list")]
    pub environment: Vec<(Text, Text)>,
    /// The directory in which the program starts.
    pub working_directory: Text,
    /// A file that the guest writes first; its bytes come on the stream [`Role::Code`].
    pub code: Option<CodeFile>,
    /// Where the code file of the next execution will be, if that will probably differ from this
    /// one in nothing else. Once no program runs, the guest may start the interpreter for it.
    pub next_code: Option<Text>,
    /// A terminal of this size as its three standard streams; without one they are pipes.
    pub terminal: Option<WindowSize>,
    /// Seccomp filters for the program and its descendants, in addition to those of the guest. The
    /// guest installs them last before it executes the program.
    #[serde(deserialize_with = "bounded_list")]
    pub filters: Vec<Filter>,
    /// The number of the cgroup leaf that the program enters before it is executed. The host has
    /// sent the leaf's files before, on a socket of their own.
    pub leaf: Option<u64>,
    /// The leaf of the next execution, for an interpreter that is started ahead: moving a process
    /// later would wait for RCU.
    pub next_leaf: Option<u64>,
}

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowSize {
    /// The width in characters.
    pub columns: u16,
    /// The height in lines.
    pub rows: u16,
}

/// One seccomp filter: a classic BPF program.
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
    /// The path of the file.
    pub path: Text,
    /// The size of the file.
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
    /// The program, directory or code file that caused the error.
    pub program: Text,
}

/// A program was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutionStarted {
    /// Which program.
    pub execution: u64,
}

/// A program and its process group are gone, and so is every other process inside if no other
/// execution runs. Output may still be in transit; the streams end after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ended {
    /// Which program.
    pub execution: u64,
    /// How the program itself ended.
    pub status: Status,
}

/// Send a signal to one program. Has no effect on a program that has ended.
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
    /// The new size.
    pub size: WindowSize,
}

/// The terminal of a program has the size that a [`Resize`] named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resized {
    /// Which program.
    pub execution: u64,
}

/// The program named by a [`Resize`] has pipes and no terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoTerminal {
    /// Which program.
    pub execution: u64,
}

/// Report on one program. The guest does not answer for a program that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observe {
    /// Which program.
    pub execution: u64,
}

/// The guest's report on one program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    /// Which program.
    pub execution: u64,
    /// Its process id as the guest sees it, once the program has started.
    pub process: Option<i32>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The program exited with this code.
    Exited(i32),
    /// This signal killed the program.
    Signaled(i32),
}

/// The first frame on every stream that the host opens except the control stream; raw bytes follow
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamHeader {
    /// The execution that the stream belongs to; zero for an operation on files or a
    /// connection to a port.
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
    /// Standard output, from the guest; with a terminal also standard error.
    Output,
    /// Standard error, from the guest; empty with a terminal.
    Error,
    /// The bytes of the code file, from the host.
    Code,
    /// One operation on files, in both directions.
    Files,
    /// One connection to a server inside, in both directions.
    Port,
}
