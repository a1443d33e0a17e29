//! The command line, for `python -m stockade`.

use std::ffi::OsString;

use pyo3::prelude::*;
use stockade::Invocation;

/// Runs the command line and returns its exit code. The executable with its leading arguments
/// starts it again, which sessions need. A process calls it once.
#[pyfunction]
pub(crate) fn command_line(
    py: Python<'_>,
    executable: OsString,
    leading: Vec<OsString>,
    arguments: Vec<OsString>,
) -> u8 {
    py.detach(|| Invocation::hosted(executable, leading, arguments).run())
}
