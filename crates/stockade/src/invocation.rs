//! How this process was started, so that it can start itself again.

use std::ffi::OsString;
use std::io::Write;
use std::process::Command;
use std::sync::OnceLock;

use crate::{dispatch, render};

/// The program and the arguments of the command line.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// What starts the command line: an executable and its leading arguments.
    program: (OsString, Vec<OsString>),
    /// The name by which it was called, and its arguments.
    arguments: Vec<OsString>,
}

static CURRENT: OnceLock<Invocation> = OnceLock::new();

impl Invocation {
    /// The executable `stockade` with the arguments of this process.
    pub fn of_this_process() -> Invocation {
        let program = ("/proc/self/exe".into(), Vec::new());
        Invocation { program, arguments: std::env::args_os().collect() }
    }

    /// A host program that contains the command line: an executable and its leading arguments start
    /// it, and `arguments` follow them.
    pub fn hosted(
        executable: OsString,
        leading: Vec<OsString>,
        arguments: Vec<OsString>,
    ) -> Invocation {
        let name = OsString::from("stockade");
        let arguments = std::iter::once(name).chain(arguments).collect();
        Invocation { program: (executable, leading), arguments }
    }

    /// Runs the command that the arguments name, and returns the exit code. Only the first
    /// invocation of a process counts.
    pub fn run(self) -> u8 {
        // An earlier invocation of this process stays.
        let _ = CURRENT.set(self);
        stockade_backends::show_progress(|text| render::talk(&format!("stockade: {text}")));
        let code = dispatch::carry_out();
        // Rust flushes at the exit of its own executables, without waiting for a thread that is
        // blocked by a reader. A closed stream is no error here: the command has reported it.
        if !is_own_executable() {
            let _ = std::io::stdout().flush();
        }
        code
    }
}

/// The name by which the command line was called, and its arguments.
pub(crate) fn arguments() -> Vec<OsString> {
    CURRENT.get().map_or_else(|| std::env::args_os().collect(), |now| now.arguments.clone())
}

/// Starts this program again; the caller adds arguments.
pub(crate) fn again() -> Command {
    let Some(Invocation { program: (executable, leading), .. }) = CURRENT.get() else {
        return Command::new("/proc/self/exe");
    };
    let mut command = Command::new(executable);
    command.args(leading);
    command
}

/// Whether this process is the executable `stockade` itself.
pub(crate) fn is_own_executable() -> bool {
    CURRENT.get().is_none_or(|now| now.program.1.is_empty())
}
