//! What may be started, where the policy lists it.

use std::path::PathBuf;

use super::Inputs;

/// The executables that Landlock lets be started: those listed, the interpreter that was asked
/// for, and the loaders that start them. Nothing where any program may be started.
pub(super) fn executables(inputs: &Inputs<'_>) -> Vec<PathBuf> {
    match &inputs.site.files.commands {
        Some(commands) => commands.executables.clone(),
        None => Vec::new(),
    }
}
