//! The native wall: namespaces, cgroups, Landlock and seccomp on the host's own kernel.

mod interpreter;
pub mod seccomp;

pub use interpreter::{
    Bind, Chosen, Interpreter, InterpreterError, Language, Link, Manager, Origin, Problem, Skipped,
    Surroundings, UnknownLanguage, find,
};
