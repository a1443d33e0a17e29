//! Why a sandbox of this wall could not be had, and what that means to a caller.

use std::io;
use std::path::PathBuf;

use stockade_launcher::{Phase, Refusal};
use stockade_provider::{Error, ErrorKind};

use crate::cgroup::CgroupError;
use crate::interpreter::InterpreterError;
use crate::obstacles;
use crate::seccomp::{CompileError, ProfileError, ResolveError, TightenError};

/// A sandbox could not be planned or started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A host path of the policy cannot be used.
    #[error("cannot show {} inside: {reason}", path.display())]
    HostPath {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// A program of `command_allowlist` is not on the host.
    #[error("command_allowlist names `{name}`, which is not an executable on this host")]
    NoCommand {
        /// The entry.
        name: String,
    },
    /// The interpreter cannot be used.
    #[error(transparent)]
    Interpreter(#[from] InterpreterError),
    /// A limit that this host cannot give.
    #[error("cannot set {key} to {asked}: this host allows at most {most}")]
    TooMuch {
        /// The limit.
        key: &'static str,
        /// What the policy says.
        asked: u64,
        /// What there is.
        most: u64,
    },
    /// A seccomp profile cannot be read.
    #[error("cannot read the seccomp profile {}", path.display())]
    ReadProfile {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// A seccomp profile is not one.
    #[error("the seccomp profile {} is not understood", path.display())]
    Profile {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: ProfileError,
    },
    /// A seccomp profile is not for this machine.
    #[error("cannot use the seccomp profile {}", path.display())]
    ForeignProfile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ResolveError,
    },
    /// Nothing could start under a seccomp profile.
    #[error("cannot use the seccomp profile {}", path.display())]
    StrictProfile {
        /// The file.
        path: PathBuf,
        /// The system call.
        source: TightenError,
    },
    /// No filter is known for this processor.
    #[error("no system-call filter is known for this processor")]
    ForeignMachine,
    /// A seccomp profile is too large for the kernel.
    #[error("cannot compile the system-call filter")]
    Compile {
        /// Why.
        #[from]
        source: CompileError,
    },
    /// A cgroup could not be made.
    #[error("cannot make the sandbox's cgroup")]
    Cgroup {
        /// Why.
        #[from]
        source: CgroupError,
    },
    /// Something that a start needs could not be had.
    #[error("cannot {what}")]
    Prepare {
        /// What was being done.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The guest could not be had.
    #[error(transparent)]
    Carrier(#[from] stockade_carrier::CarryError),
    /// A step of the wall failed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The stream to the guest could not be opened.
    #[error(transparent)]
    Link(#[from] stockade_carrier::LinkError),
    /// No user ids are free.
    #[error(transparent)]
    Ids(#[from] crate::id_range::IdRangeError),
    /// Something of a sandbox could not be taken down.
    #[error("something of the sandbox could not be taken down")]
    Left,
    /// The launcher ended without a word.
    #[error("the launcher ended before the wall was built")]
    Silent,
}

impl StartError {
    pub(crate) fn prepare(what: &'static str) -> impl FnOnce(io::Error) -> StartError {
        move |source| StartError::Prepare { what, source }
    }
}

impl From<StartError> for Error {
    fn from(error: StartError) -> Error {
        // No wildcard arm: a new variant must choose its kind.
        let (kind, remedy) = match &error {
            StartError::HostPath { remedy, .. } => (ErrorKind::Invalid, Some(remedy.clone())),
            StartError::NoCommand { .. } => {
                (ErrorKind::Invalid, Some("install it, or remove it from the list".to_owned()))
            }
            StartError::Interpreter(problem) => (ErrorKind::Invalid, Some(problem.hint().to_owned())),
            StartError::TooMuch { .. } => {
                (ErrorKind::Unenforceable, Some("ask for less, or raise the host's".to_owned()))
            }
            StartError::ReadProfile { .. } => {
                (ErrorKind::Invalid, Some("check the path and its permissions".to_owned()))
            }
            StartError::Profile { source, .. } => (ErrorKind::Invalid, Some(source.remedy.clone())),
            StartError::ForeignProfile { .. } => {
                (ErrorKind::Invalid, Some("add this machine's architecture to it".to_owned()))
            }
            StartError::StrictProfile { .. } => {
                (ErrorKind::Invalid, Some("allow that system call in it".to_owned()))
            }
            StartError::ForeignMachine => (
                ErrorKind::Unavailable,
                Some("use x86_64 or aarch64".to_owned()),
            ),
            StartError::Compile { .. } => {
                (ErrorKind::Invalid, Some("use a profile with fewer rules".to_owned()))
            }
            StartError::Cgroup { .. } => (ErrorKind::Unavailable, None),
            StartError::Prepare { source, .. } => (ErrorKind::Internal, scarcity(source)),
            StartError::Carrier(_) | StartError::Link(_) => (ErrorKind::Internal, None),
            StartError::Ids(_) => {
                (ErrorKind::Unavailable, Some("end other sandboxes first".to_owned()))
            }
            StartError::Left => (
                ErrorKind::Internal,
                Some("the next start of Stockade tries again; see that nothing holds it".to_owned()),
            ),
            StartError::Refused(refusal) => of_refusal(refusal),
            StartError::Silent => {
                (ErrorKind::Internal, Some("see whether the host is out of memory".to_owned()))
            }
        };
        let converted = Error::new(kind, error);
        match remedy {
            Some(remedy) => converted.with_remedy(remedy),
            None => converted,
        }
    }
}

/// What to do when the host has run out of something.
fn scarcity(error: &io::Error) -> Option<String> {
    let errno = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error)?;
    let remedy = match errno {
        rustix::io::Errno::MFILE => "raise the limit of open files (ulimit -n)",
        rustix::io::Errno::NFILE => "close files on the host, or raise fs.file-max",
        rustix::io::Errno::NOMEM => "free memory on the host",
        rustix::io::Errno::AGAIN => "end other processes, or raise the limit of processes (ulimit -u)",
        rustix::io::Errno::NOSPC => "free space on the host's disk",
        _ => return None,
    };
    Some(remedy.to_owned())
}

fn of_refusal(refusal: &Refusal) -> (ErrorKind, Option<String>) {
    match refusal.phase {
        Phase::Birth => (ErrorKind::Unavailable, Some(obstacles::of_birth(refusal.errno))),
        Phase::Outside => (
            ErrorKind::Unenforceable,
            Some(
                "its file system cannot show files under another owner; run as an ordinary user, \
                 or copy the files to one that can"
                    .to_owned(),
            ),
        ),
        Phase::Inside => {
            let error = refusal.errno.map(io::Error::from_raw_os_error);
            let remedy = error.as_ref().and_then(scarcity);
            let of_step = || Some(obstacles::of_step(&refusal.step, refusal.errno));
            (ErrorKind::Unavailable, remedy.or_else(of_step))
        }
    }
}
