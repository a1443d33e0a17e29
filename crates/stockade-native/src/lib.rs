//! Parts of the native wall: the system-call filter, cgroups, and finding interpreters.
//!
//! Nothing uses them yet: the wall itself is not built, and every plan says so.

pub mod cgroup;
mod id_range;
mod interpreter;
pub mod proc_files;
pub mod seccomp;
pub mod watchdog;

pub use id_range::{IdRange, IdRangeError};
pub use interpreter::{
    Bind, Chosen, Interpreter, InterpreterError, Link, Manager, Origin, Problem, Skipped, find,
};
