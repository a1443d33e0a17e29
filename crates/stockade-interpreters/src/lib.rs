//! Finds the interpreter that the user's shell would start, and the exact host paths that it needs
//! inside a sandbox.
//!
//! Reads files only and starts nothing on the host, because a planted shim or interpreter would
//! then run outside the wall. The steps are
//!
//! ```text
//! search   where the user's shell would look      candidates, in order
//! settle   shims of version managers resolved     one real program, or "continue along PATH"
//! layout   environment, installation, libraries   binds and links
//! ```

mod asdf;
mod elf;
mod layout;
mod libraries;
mod own_programs;
mod places;
mod problem;
mod pyenv;
mod python;
mod resolve;
mod search;
mod settle;
mod setup;
mod surrounding;
mod surroundings;
mod version;
mod volta;

use std::path::PathBuf;

pub use own_programs::{OWN_DIRECTORIES, OwnPrograms, own_programs_of};
pub use problem::{InterpreterError, Problem, Skipped};
pub use setup::{
    CODE_DIRECTORY, Directories, ProgramSetup, host_loopback, proxy_variables, threads,
};
use stockade_provider::Language;
pub use surrounding::surrounding_python;
pub use surroundings::Surroundings;
pub use version::{Chosen, Manager};

/// An interpreter and everything that a sandbox needs to run it.
///
/// Start the program with only the user's own arguments: flags such as Python's `-I` would change
/// the behaviour of the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// The language that it interprets.
    pub language: Language,
    /// The name to start it by, inside and outside. In a virtual environment this is the
    /// environment's own name, because Python derives `sys.prefix` from it.
    pub program: PathBuf,
    /// The executable that the name leads to, without links.
    pub resolved: PathBuf,
    /// What to mount read-only inside; no bind is below another.
    pub binds: Vec<Bind>,
    /// Links to create inside, so that names which lead to the binds outside also do so inside.
    pub links: Vec<SymbolicLink>,
    /// Directories that the loader finds only through its cache outside; inside, add them to
    /// `LD_LIBRARY_PATH`.
    pub library_path: Vec<PathBuf>,
    /// The version, as far as file names show it, such as `3.11`.
    pub version: Option<String>,
    /// Which of the searched places has it.
    pub origin: Origin,
    /// The version manager that chose it, if one did.
    pub chosen: Option<Chosen>,
    /// The places that were searched before without success.
    pub skipped: Vec<Skipped>,
}

/// A host file or directory to mount read-only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bind {
    /// The path on the host, without symbolic links.
    pub host: PathBuf,
    /// The path inside, which is the same.
    pub guest: PathBuf,
}

impl Bind {
    fn same(path: PathBuf) -> Bind {
        Bind { guest: path.clone(), host: path }
    }
}

/// A symbolic link to create inside.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SymbolicLink {
    /// The path of the link, the same inside and outside.
    pub at: PathBuf,
    /// Its target.
    pub target: PathBuf,
}

/// The place where the interpreter was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `--python`.
    Explicit,
    /// `VIRTUAL_ENV`.
    VirtualEnvironment,
    /// `CONDA_PREFIX`.
    Conda,
    /// A directory of `PATH`.
    Path,
    /// The system's default path.
    System,
}

/// The directories with the system's own programs and libraries, and the links between them.
pub fn system() -> (Vec<Bind>, Vec<SymbolicLink>) {
    let cover = places::system();
    (cover.binds, cover.links)
}

/// The dynamic loader that an executable names, if it names one.
pub fn loader_of(executable: &std::path::Path) -> Option<PathBuf> {
    elf::needs(executable).ok()?.loader
}

/// Finds the interpreter that a shell with these surroundings would start, without starting
/// anything.
pub fn find(
    language: Language,
    surroundings: &Surroundings,
) -> Result<Interpreter, InterpreterError> {
    search::search(language, surroundings)
}
