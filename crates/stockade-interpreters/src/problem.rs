//! Why an interpreter cannot be used, with advice for the user.

use std::io;
use std::path::{Path, PathBuf};

use super::{Language, Manager};

/// No interpreter can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InterpreterError {
    /// No searched place has one.
    #[error("no interpreter for {language} was found{}", places(.why_not))]
    NotFound {
        /// The language.
        language: Language,
        /// Every searched place, with the reason why it has no interpreter.
        why_not: Vec<Skipped>,
    },
    /// The interpreter that the user means cannot or must not be used. No other is used instead.
    #[error("cannot use {} as the interpreter for {language}", .program.display())]
    Refused {
        /// The language.
        language: Language,
        /// The name it was found by.
        program: PathBuf,
        /// What is wrong with it.
        #[source]
        problem: Box<Problem>,
        /// The places that were searched before.
        why_not: Vec<Skipped>,
    },
}

impl InterpreterError {
    /// Advice for the user.
    pub fn hint(&self) -> &'static str {
        let language = match self {
            InterpreterError::NotFound { language, .. } => language,
            InterpreterError::Refused { language, .. } => language,
        };
        match language {
            Language::Python => {
                "name an executable, a virtual environment or an installation with --python PATH"
            }
            Language::Bash => "install bash as /bin/bash",
            Language::JavaScript => "put the directory of the node to use first on PATH",
        }
    }

    /// The places that were searched and skipped.
    pub fn why_not(&self) -> &[Skipped] {
        match self {
            InterpreterError::NotFound { why_not, .. } => why_not,
            InterpreterError::Refused { why_not, .. } => why_not,
        }
    }
}

/// A searched place without a usable interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The directory or file.
    pub place: PathBuf,
    /// The reason.
    pub why: Problem,
}

/// What is wrong with a place or a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant says in its message what its fields are")]
pub enum Problem {
    #[error("it has none")]
    Nothing,
    #[error("it is not an absolute path, so it would change with the working directory")]
    Relative,
    #[error("it holds the shims of {manager}, which says to use the system's")]
    Shims { manager: Manager },
    #[error("it is Python 2")]
    OldPython,
    #[error("{} does not exist", .path.display())]
    Missing { path: PathBuf },
    #[error("{} leads through too many symbolic links", .path.display())]
    Loop { path: PathBuf },
    #[error("{} is not a file", .path.display())]
    NotAFile { path: PathBuf },
    #[error("{} is not executable", .path.display())]
    NotExecutable { path: PathBuf },
    #[error("cannot read {}: {kind}", .path.display())]
    Unreadable { path: PathBuf, kind: io::ErrorKind },
    #[error("{} belongs to user {owner}, who is neither root nor you and could replace it", .path.display())]
    ForeignOwner { path: PathBuf, owner: u32 },
    #[error("every user may write to {}, so another user could have put it there", .path.display())]
    WorldWritable { path: PathBuf },
    #[error("{} is a script that begins {first_line:?}, not an interpreter or a known shim; it is not run to find out", .path.display())]
    Script { path: PathBuf, first_line: String },
    #[error("{} is no 64-bit ELF executable", .path.display())]
    NotElf { path: PathBuf },
    #[error("{} is another program, perhaps a shim of a version manager that is not known here", .real.display())]
    OtherProgram { real: PathBuf },
    #[error("{said_by} asks {manager} for {text:?}, which cannot be a version")]
    BadVersion { manager: Manager, text: String, said_by: String },
    #[error("it is a shim of {manager}, and nothing says which version to use")]
    NoVersion { manager: Manager },
    #[error("{said_by} asks {manager} for {}, which {} does not have", .versions.join(" or "), .place.display())]
    NotInstalled { manager: Manager, versions: Vec<String>, said_by: String, place: PathBuf },
    #[error("{} has no usable value for {key}", .file.display())]
    BrokenSettings { file: PathBuf, key: &'static str },
    #[error("the virtual environment {} is based on {}, which has no interpreter", .directory.display(), .home.display())]
    BrokenEnvironment { directory: PathBuf, home: PathBuf },
    #[error("{} has no standard library next to {}", .prefix.display(), .real.display())]
    NoStandardLibrary { real: PathBuf, prefix: PathBuf },
    #[error("{} may not be shown inside a sandbox", .path.display())]
    Forbidden { path: PathBuf },
    #[error("{} needs {library}, which is in no directory of the loader", .file.display())]
    MissingLibrary { file: PathBuf, library: String },
}

impl Problem {
    /// Whether a shell would also skip a name with this problem.
    pub(super) fn is_absence(&self) -> bool {
        matches!(
            self,
            Problem::Missing { .. }
                | Problem::Loop { .. }
                | Problem::NotAFile { .. }
                | Problem::NotExecutable { .. }
        )
    }

    /// Maps a failed file operation.
    pub(super) fn of_io(path: &Path, error: &io::Error) -> Problem {
        let path = path.to_path_buf();
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Problem::Missing { path },
            kind => Problem::Unreadable { path, kind },
        }
    }
}

fn places(skipped: &[Skipped]) -> String {
    let place = |skipped: &Skipped| format!("{}: {}", skipped.place.display(), skipped.why);
    match skipped {
        [] => "; there is no PATH to look along".to_owned(),
        _ => format!("; looked at {}", skipped.iter().map(place).collect::<Vec<_>>().join("; ")),
    }
}
