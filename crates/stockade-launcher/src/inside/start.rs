//! Executes the program in place of this process.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Replaces this process. Returns only on failure.
pub(super) fn execute(
    program: &Path,
    arguments: &[String],
    environment: &[(String, String)],
) -> io::Error {
    if let Err(error) = stockade_sys::close_on_exec_from(3) {
        return error;
    }
    let mut command = Command::new(program);
    if let Some((name, rest)) = arguments.split_first() {
        command.arg0(name).args(rest);
    }
    command.env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
    command.exec()
}
