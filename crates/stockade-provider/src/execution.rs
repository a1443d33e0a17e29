//! One program in a sandbox: what to start, its streams, its control, and its end.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use stockade_policy::Limit;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{Error, ExecutionUsage, Language};

/// One program to run in a sandbox.
#[derive(Clone, Debug)]
pub struct Execution {
    /// What to start.
    pub program: Program,
    /// Variables in addition to those that every sandbox sets; they replace variables of the same
    /// name.
    pub environment: Vec<(String, String)>,
    /// The working directory, an absolute path inside; `None` is the sandbox's workspace.
    pub working_directory: Option<String>,
    /// How long it may run. Then the wall kills the execution, even if no caller awaits its end.
    pub timeout: Option<Duration>,
    /// The kind of its standard streams.
    pub stdio: Stdio,
}

impl Execution {
    /// A program with pipes, in the workspace, without a timeout or variables of its own.
    pub fn new(program: Program) -> Execution {
        let (environment, stdio) = (Vec::new(), Stdio::Pipes);
        Execution { program, environment, working_directory: None, timeout: None, stdio }
    }
}

/// The kind of a program's standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdio {
    /// Three pipes.
    Pipes,
    /// One terminal, which carries both standard output and standard error on `stdout`. A wall
    /// without terminals refuses it by name.
    Terminal(TerminalSize),
}

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Its width.
    pub columns: u16,
    /// Its height.
    pub rows: u16,
}

/// The id of one execution, unique in its sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutionId(pub u64);

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What to start.
#[derive(Clone)]
pub enum Program {
    /// Code for an interpreter. The wall passes it as a file, never as an argument.
    Code {
        /// The language of the interpreter.
        language: Language,
        /// The file name in the interpreter's messages: one name without slashes.
        name: String,
        /// The code.
        code: Vec<u8>,
        /// The arguments of the code.
        arguments: Vec<String>,
    },
    /// A program with its arguments, starting with its own name. A name without slashes is searched
    /// for inside.
    Command {
        /// The program name and its arguments.
        argv: Vec<String>,
    },
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Program::Code { language, name, code, arguments } => f
                .debug_struct("Code")
                .field("language", language)
                .field("name", name)
                .field("bytes", &code.len())
                .field("arguments", &arguments.len())
                .finish(),
            Program::Command { argv } => f.debug_struct("Command").field("argv", argv).finish(),
        }
    }
}

/// A running program. A program that could not be started reports that as its end.
///
/// Dropping the streams closes them for the program; it does not end it.
pub struct Running {
    /// Which execution of its sandbox this is.
    pub id: ExecutionId,
    /// Controls it while it runs.
    pub control: Arc<dyn ExecutionControl>,
    /// Its standard input. Shutting it down is the end of the input.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its standard output, up to its end.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Its standard error, up to its end.
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
    /// How it ended. Resolves when the program and all its descendants are gone, even if their
    /// output is unread; the output can still be read to its end.
    pub end: BoxFuture<'static, Result<ProcessEnd, Error>>,
}

/// Controls one execution. After the execution has ended, its methods do nothing.
pub trait ExecutionControl: Send + Sync {
    /// Sends a signal to the program. Returns when it is sent.
    fn signal(&self, signal: i32) -> BoxFuture<'_, Result<(), Error>>;

    /// Kills the program and its descendants. Returns when the kill is sent; [`Running::end`]
    /// resolves when they are gone.
    fn kill(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// Resizes the terminal. An execution with pipes refuses it.
    fn resize(&self, size: TerminalSize) -> BoxFuture<'_, Result<(), Error>>;

    /// What the execution has used so far, as far as the wall counts it separately from its
    /// sandbox.
    fn observe(&self) -> BoxFuture<'_, ExecutionUsage>;
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// It exited.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// A signal killed it.
    Signaled {
        /// Its number.
        signal: i32,
    },
    /// It could not be executed.
    NotStarted {
        /// The kernel's errno.
        errno: i32,
        /// The program that could not be executed.
        program: String,
        /// The system call that a start needs and a seccomp profile of the policy refuses, if that
        /// is the reason.
        refused_call: Option<String>,
    },
    /// A runtime without processes stopped it because of an illegal operation.
    Trapped {
        /// The operation, as the runtime describes it.
        reason: String,
    },
    /// A runtime that counts instructions stopped it because its budget was used up.
    OutOfFuel,
    /// The wall ended it because of a limit of this execution, such as its timeout.
    LimitExceeded {
        /// Which limit.
        limit: Limit,
    },
    /// The sandbox ended with it: its first process is gone, killed from outside or by the kernel.
    SandboxEnded {
        /// The signal that ended the first process, if the wall knows it.
        signal: Option<i32>,
    },
}
