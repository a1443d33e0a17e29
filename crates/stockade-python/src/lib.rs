//! The extension module `stockade._stockade`: sandboxes as Python objects with few methods. The
//! package in `python/stockade` gives them their interface.
//!
//! ```text
//! Python thread ── starts ──▶ Operation: a task of the shared runtime
//!               ── wait, without the GIL ──▶ its result       or
//!               ◀── a callback, from the notifier thread ──   for asyncio
//! ```
//! No thread of the runtime takes the GIL. Tools run on blocking threads, which do.

mod azure;
mod command_line;
mod contexts;
mod conversation;
mod doctor;
mod events;
mod execution;
mod failure;
mod files;
mod operation;
mod policy;
mod record;
mod remote;
mod report;
mod runtime;
mod session;
mod state;
mod streams;
mod tools;

use pyo3::prelude::*;

#[pymodule]
mod _stockade {
    #[pymodule_export]
    use crate::command_line::command_line;
    #[pymodule_export]
    use crate::contexts::Call;
    #[pymodule_export]
    use crate::doctor::{doctor, has_image, wall};
    #[pymodule_export]
    use crate::events::{Events, summary};
    #[pymodule_export]
    use crate::execution::Execution;
    #[pymodule_export]
    use crate::failure::Failure;
    #[pymodule_export]
    use crate::files::{FileStream, FileWatch, Files};
    #[pymodule_export]
    use crate::operation::Operation;
    #[pymodule_export]
    use crate::policy::{Policy, policy_schema, presets};
    #[pymodule_export]
    use crate::remote::{Remote, sessions};
    #[pymodule_export]
    use crate::runtime::{Runtime, version};
    #[pymodule_export]
    use crate::session::Session;
    #[pymodule_export]
    use crate::state::{
        apply_checkpoint, checkpoints, differences, export_checkpoint, import_checkpoint,
        remove_checkpoint,
    };
    #[pymodule_export]
    use crate::tools::ToolCall;

    #[pymodule_init]
    fn init(_module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        stockade_backends::show_progress(crate::runtime::log_progress);
        Ok(())
    }
}
