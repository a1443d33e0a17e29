//! One program in a sandbox: what to start, its streams, and its end.

use std::fmt;

use futures_core::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{Error, Language};

/// One program to run in a sandbox.
#[derive(Clone, Debug)]
pub struct Execution {
    /// What to start.
    pub program: Program,
    /// Variables beside those every sandbox sets itself; they win over those.
    pub environment: Vec<(String, String)>,
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

/// A program that runs, or that could not be started, which its end then says.
///
/// Dropping the streams closes them for the program; it does not end it.
pub struct Running {
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

/// How a program ended, from the status that the kernel gave.
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
    /// The sandbox ended with it: its first process is gone, killed from outside or by the kernel.
    SandboxEnded {
        /// The signal that ended the first process, where the wall knows of one.
        signal: Option<i32>,
    },
}
