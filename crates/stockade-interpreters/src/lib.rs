//! Which interpreter a person means, and the exact host paths that it needs inside a sandbox.
//!
//! Everything is read from files: nothing that is found is started on the host, because a shim or
//! an interpreter that somebody planted would then run outside the wall. The steps are
//!
//! ```text
//! search   where a person's shell would look      candidates, in order
//! settle   shims of version managers resolved     one real program, or "go on along PATH"
//! layout   environment, installation, libraries   binds and links
//! ```

mod asdf;
mod elf;
mod layout;
mod libraries;
mod places;
mod problem;
mod pyenv;
mod python;
mod resolve;
mod search;
mod settle;
mod surroundings;
mod version;
mod volta;

use std::path::PathBuf;

pub use problem::{InterpreterError, Problem, Skipped};
use stockade_provider::Language;
pub use surroundings::Surroundings;
pub use version::{Chosen, Manager};

/// An interpreter and all that a sandbox must be given to run it.
///
/// The program is to be started with the person's own arguments and no others: flags such as
/// Python's `-I` would change what the code means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// What it interprets.
    pub language: Language,
    /// The name to start it by, inside and outside; an environment's own name for it, because
    /// Python finds `sys.prefix` from the name it was started by.
    pub program: PathBuf,
    /// The executable behind that name, without links.
    pub resolved: PathBuf,
    /// What to show read-only inside; none lies below another.
    pub binds: Vec<Bind>,
    /// Links to make inside, so that names which lead to the binds outside do so inside too.
    pub links: Vec<Link>,
    /// Directories that only the loader's cache knows outside; inside they belong into
    /// `LD_LIBRARY_PATH`.
    pub library_path: Vec<PathBuf>,
    /// The version as far as names tell it, such as `3.11`.
    pub version: Option<String>,
    /// Which of the places led to it.
    pub origin: Origin,
    /// The version manager that was asked on the way.
    pub chosen: Option<Chosen>,
    /// The places that were looked at before and had nothing.
    pub skipped: Vec<Skipped>,
}

/// A host file or directory to show read-only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bind {
    /// The path on the host, free of symbolic links.
    pub host: PathBuf,
    /// The path inside; the same.
    pub guest: PathBuf,
}

impl Bind {
    fn same(path: PathBuf) -> Bind {
        Bind { guest: path.clone(), host: path }
    }
}

/// A symbolic link to make inside.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// Where the link is, inside as outside.
    pub at: PathBuf,
    /// What it says.
    pub target: PathBuf,
}

/// Which of the places a person could mean had the interpreter.
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
    /// The system's own place for it.
    System,
}

/// The directories with the system's own programs and libraries, and the links between them.
pub fn system() -> (Vec<Bind>, Vec<Link>) {
    let cover = places::system();
    (cover.binds, cover.links)
}

/// The dynamic loader that an executable names, if it is one that names any.
pub fn loader_of(executable: &std::path::Path) -> Option<PathBuf> {
    elf::needs(executable).ok()?.loader
}

/// Finds the interpreter that a person in these surroundings means, without starting anything.
pub fn find(
    language: Language,
    surroundings: &Surroundings,
) -> Result<Interpreter, InterpreterError> {
    search::search(language, surroundings)
}
