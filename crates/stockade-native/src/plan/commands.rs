//! The executables of a `command_allowlist`.

use std::path::PathBuf;

use super::{Inputs, tools};

/// The executables that Landlock allows: the listed ones, the requested interpreter, their loaders,
/// and the command that calls tools, if there are tools. Empty if the policy allows any program.
pub(super) fn executables(inputs: &Inputs<'_>) -> Vec<PathBuf> {
    match &inputs.files.commands {
        Some(commands) => {
            let tools = inputs.tools.as_ref().map(|_| tools::command());
            commands.executables.iter().cloned().chain(tools).collect()
        }
        None => Vec::new(),
    }
}
