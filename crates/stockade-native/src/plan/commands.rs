//! What may be started, where the policy lists it.

use std::path::PathBuf;

use super::{Inputs, tools};

/// The executables that Landlock lets be started: those listed, the interpreter that was asked
/// for, the loaders that start them, and the command that calls tools, where there are any. Nothing
/// where any program may be started.
pub(super) fn executables(inputs: &Inputs<'_>) -> Vec<PathBuf> {
    match &inputs.files.commands {
        Some(commands) => {
            let tools = inputs.tools.as_ref().map(|_| tools::command());
            commands.executables.iter().cloned().chain(tools).collect()
        }
        None => Vec::new(),
    }
}
