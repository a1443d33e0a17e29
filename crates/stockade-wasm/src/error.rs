//! Errors of this wall.

use std::io;
use std::path::PathBuf;

use stockade_hostfiles::HostFileError;
use stockade_provider::{Error, ErrorKind, Obstacle};

/// Why the component cannot be used, or a sandbox cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WasmError {
    /// There is no place for the component and its compiled form.
    #[error("there is no directory for the component: neither XDG_CACHE_HOME nor HOME is set")]
    NoCache,
    /// The component has not been built.
    #[error("the CPython component is not built: {path} is missing", path = path.display())]
    NoComponent {
        /// Where it would be.
        path: PathBuf,
    },
    /// The component is not the one that this version was built for.
    #[error("the CPython component {path} is truncated or altered", path = path.display())]
    Altered {
        /// Where it is.
        path: PathBuf,
    },
    /// A directory or a file could be written by another user.
    #[error("{path} is not used: {why}", path = path.display())]
    Untrusted {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A file operation failed.
    #[error("cannot {doing} {path}", path = path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The engine refused its own configuration, or the component.
    #[error("the WebAssembly engine cannot {doing}")]
    Engine {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The memory limit is below what the interpreter needs to start.
    #[error("the interpreter does not start in {most} MiB of memory")]
    TooLittleMemory {
        /// The limit, in MiB.
        most: u64,
    },
    /// Other programs and contexts have the memory that one more interpreter needs.
    #[error(
        "no memory is left for one more interpreter: programs, contexts and files have {used} of \
         {most} MiB"
    )]
    NoMemoryLeft {
        /// What they have, in MiB.
        used: u64,
        /// The limit, in MiB.
        most: u64,
    },
    /// A host path of the policy cannot be mounted.
    #[error("cannot mount {path}: {why}", path = path.display())]
    Mount {
        /// Which path.
        path: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// A host file of the policy cannot be used.
    #[error(transparent)]
    HostFile {
        /// Which one and why.
        #[from]
        source: HostFileError,
    },
    /// The root is an image or a directory.
    #[error("this wall has its own interpreter, and no root file system")]
    Root,
    /// The files of the tools do not fit into the limits.
    #[error("the files of the tools do not fit into the limits of the policy")]
    ToolFiles,
    /// Two clauses of the policy name the same path inside in ways that exclude each other.
    #[error("the paths inside that the policy names contradict each other")]
    Layout,
    /// A thread or a runtime could not be started.
    #[error("cannot start a thread for the program")]
    Thread {
        /// Why.
        source: io::Error,
    },
}

impl WasmError {
    /// The engine's error, with the operation.
    pub(crate) fn engine(doing: &'static str, source: wasmtime::Error) -> WasmError {
        // The engine's error prints its causes, one per line, only in the debug form.
        let causes: Vec<String> = source.chain().map(ToString::to_string).collect();
        WasmError::Engine { doing, source: causes.join(": ").into() }
    }

    fn remedy(&self) -> Option<String> {
        Some(match self {
            WasmError::NoCache => "set HOME, or XDG_CACHE_HOME".to_owned(),
            WasmError::NoComponent { .. } => {
                "run `cargo xtask component python` in a clone of Stockade; it needs python3 with \
                 pip and a C compiler"
                    .to_owned()
            }
            WasmError::Altered { path } => {
                format!(
                    "remove {}, and build it with `cargo xtask component python`",
                    path.display()
                )
            }
            WasmError::Untrusted { path, .. } => {
                format!(
                    "remove {}, or set XDG_CACHE_HOME to a directory of your own",
                    path.display()
                )
            }
            WasmError::TooLittleMemory { .. } => "raise defaults.max_memory_mb to 128".to_owned(),
            WasmError::NoMemoryLeft { .. } => {
                "end a program, restart or remove a context, or raise defaults.max_memory_mb"
                    .to_owned()
            }
            WasmError::Mount { .. } => {
                "mount a directory, or one regular file read-only".to_owned()
            }
            WasmError::HostFile { source: HostFileError::Path { remedy, .. } } => remedy.clone(),
            WasmError::HostFile { source: HostFileError::Mounts { .. } } => return None,
            WasmError::Root => "leave --root and --image out, or use another wall".to_owned(),
            WasmError::ToolFiles => "raise defaults.max_memory_mb or limits.max_disk_mb".to_owned(),
            WasmError::Layout => "give each mount a path of its own inside".to_owned(),
            WasmError::File { .. } | WasmError::Engine { .. } | WasmError::Thread { .. } => {
                return None;
            }
        })
    }

    fn kind(&self) -> ErrorKind {
        match self {
            WasmError::NoCache
            | WasmError::NoComponent { .. }
            | WasmError::Altered { .. }
            | WasmError::Untrusted { .. }
            | WasmError::Thread { .. } => ErrorKind::Unavailable,
            WasmError::NoMemoryLeft { .. } => ErrorKind::Busy,
            WasmError::TooLittleMemory { .. }
            | WasmError::Mount { .. }
            | WasmError::HostFile { .. }
            | WasmError::Root
            | WasmError::ToolFiles
            | WasmError::Layout => ErrorKind::Invalid,
            WasmError::File { .. } | WasmError::Engine { .. } => ErrorKind::Internal,
        }
    }
}

/// The reason and the remedy.
pub fn obstacle(error: &WasmError) -> Obstacle {
    let reason = stockade_provider::chain(error);
    let remedy = error.remedy().unwrap_or_else(|| "use another wall".to_owned());
    Obstacle { reason, remedy }
}

impl From<WasmError> for Error {
    fn from(error: WasmError) -> Error {
        let (kind, remedy) = (error.kind(), error.remedy());
        let error = Error::new(kind, error);
        match remedy {
            Some(remedy) => error.with_remedy(remedy),
            None => error,
        }
    }
}
