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
    /// Variables in addition to those every sandbox sets itself; they win over those.
    pub environment: Vec<(String, String)>,
    /// Where the program starts, an absolute path inside; `None` is the sandbox's workspace.
    pub working_directory: Option<String>,
    /// How long it may run. The wall kills the execution then, whether or not its end is awaited.
    pub timeout: Option<Duration>,
    /// What its standard streams are.
    pub stdio: Stdio,
}

impl Execution {
    /// A program with pipes, in the workspace, without a timeout or variables of its own.
    pub fn new(program: Program) -> Execution {
        let (environment, stdio) = (Vec::new(), Stdio::Pipes);
        Execution { program, environment, working_directory: None, timeout: None, stdio }
    }
}

/// What the standard streams of a program are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdio {
    /// Three pipes.
    Pipes,
    /// One terminal: what the program prints and its errors both come by its output. A wall without
    /// terminals refuses it by name.
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

/// Names one execution of a sandbox; no two executions of a sandbox have the same.
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
    /// Code for an interpreter. It travels as a file, never as an argument.
    Code {
        /// Whose interpreter.
        language: Language,
        /// The file name that messages of the interpreter show; one plain name without slashes.
        name: String,
        /// The code.
        code: Vec<u8>,
        /// What the code sees as its arguments.
        arguments: Vec<String>,
    },
    /// A program with its arguments, its own name first. A bare name is looked for inside.
    Command {
        /// The words.
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

/// A program that runs. One that could not be started reports that as its end.
///
/// Dropping the streams closes them for the program; it does not end it.
pub struct Running {
    /// Which execution of its sandbox this is.
    pub id: ExecutionId,
    /// Acts on it while it runs.
    pub control: Arc<dyn ExecutionControl>,
    /// Its standard input. Shutting it down is the end of the input.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its standard output, up to its end.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Its standard error, up to its end.
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
    /// How it ended. Resolves when the program and everything it started are gone, whether or not
    /// what they wrote is read; it can still be read up to its end.
    pub end: BoxFuture<'static, Result<ProcessEnd, Error>>,
}

/// Acts on one execution. It stays usable after the execution has ended, and does nothing then.
pub trait ExecutionControl: Send + Sync {
    /// Sends a signal to the program. Returns when it is sent.
    fn signal(&self, signal: i32) -> BoxFuture<'_, Result<(), Error>>;

    /// Kills the program with what it started. Returns when the kill is sent; the end of the
    /// execution says when it is done.
    fn kill(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// Resizes the terminal. An execution with pipes refuses it.
    fn resize(&self, size: TerminalSize) -> BoxFuture<'_, Result<(), Error>>;

    /// What the execution has used so far, as far as it is counted apart from its sandbox.
    fn observe(&self) -> BoxFuture<'_, ExecutionUsage>;
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// By itself.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// Of a signal.
    Signaled {
        /// Its number.
        signal: i32,
    },
    /// It could not be executed.
    NotStarted {
        /// The kernel's error number.
        errno: i32,
        /// What was tried.
        program: String,
        /// The system call that a start needs and a seccomp profile of the policy refuses, where
        /// that is why.
        refused_call: Option<String>,
    },
    /// A runtime without processes stopped it over something that it did.
    Trapped {
        /// What it did, in the words of the runtime.
        reason: String,
    },
    /// A runtime that counts instructions stopped it: its share was used up.
    OutOfFuel,
    /// The wall ended it over a limit of this execution, such as its timeout.
    LimitExceeded {
        /// Which.
        limit: Limit,
    },
    /// The sandbox ended with it: its first process is gone, killed from outside or by the kernel.
    SandboxEnded {
        /// The signal that ended the first process, where the wall knows of one.
        signal: Option<i32>,
    },
}
