//! Errors of planning and starting a sandbox, and their mapping to the caller's error kinds.

use std::io;
use std::path::PathBuf;

use stockade_carrier::CarryError;
use stockade_cgroup::CgroupError;
use stockade_hostfiles::{FilterError, HostFileError};
use stockade_interpreters::InterpreterError;
use stockade_launcher::{Ending, Phase, Refusal};
use stockade_provider::{Error, ErrorKind, Obstacle};
use stockade_sys::SealedFileError;

use crate::id_range::IdRangeError;
use crate::knobs::Knobs;
use crate::obstacles;

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
    /// The requested tool files cannot be shown.
    #[error("cannot show tools inside: {reason}")]
    Tools {
        /// Why not.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// The request needs something that this wall does not support.
    #[error("cannot use {what} here: {reason}")]
    Unsupported {
        /// The requested feature.
        what: &'static str,
        /// Why not.
        reason: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// The interpreter cannot be used.
    #[error(transparent)]
    Interpreter(#[from] InterpreterError),
    /// A limit is above what this host allows.
    #[error("cannot set {key} to {asked}: this host allows at most {most}")]
    TooMuch {
        /// The limit.
        key: &'static str,
        /// The value in the policy.
        asked: u64,
        /// The host's maximum.
        most: u64,
    },
    /// A system-call filter cannot be made.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// A cgroup could not be made.
    #[error("cannot make the sandbox's cgroup")]
    Cgroup {
        /// Why.
        #[from]
        source: CgroupError,
    },
    /// A preparation of the start failed.
    #[error("cannot {what}")]
    Prepare {
        /// The operation that failed.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The guest executable could not be prepared.
    #[error(transparent)]
    Carrier(#[from] CarryError),
    /// A step of the wall failed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The stream to the guest could not be opened.
    #[error(transparent)]
    Link(#[from] stockade_carrier::LinkError),
    /// No user ids are free.
    #[error(transparent)]
    Ids(#[from] IdRangeError),
    /// Some resources of a sandbox could not be released.
    #[error("something of the sandbox could not be taken down")]
    Left,
    /// The first process inside ended without a report.
    #[error("the first process inside ended before the wall was built, {}", how(.ending))]
    Died {
        /// How.
        ending: Ending,
    },
    /// The launcher ended without a report.
    #[error("the launcher ended before the wall was built")]
    Silent,
    /// A trial wall was not finished in time.
    #[error("a throw-away wall was not built and taken down within {limit_ms} ms")]
    Slow {
        /// Its time limit.
        limit_ms: u128,
    },
}

/// A refusal together with its cause.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
struct Explained {
    reason: String,
    source: StartError,
}

impl StartError {
    pub(crate) fn prepare(what: &'static str) -> impl FnOnce(io::Error) -> StartError {
        move |source| StartError::Prepare { what, source }
    }
}

impl From<HostFileError> for StartError {
    fn from(error: HostFileError) -> StartError {
        match error {
            HostFileError::Path { path, reason, remedy } => {
                StartError::HostPath { path, reason, remedy }
            }
            HostFileError::Mounts { source } => {
                StartError::Prepare { what: "read what is mounted where", source }
            }
        }
    }
}

impl From<StartError> for Error {
    fn from(error: StartError) -> Error {
        if let Some(Obstacle { reason, remedy }) = explained(&error) {
            let explained = Explained { reason, source: error };
            return Error::new(ErrorKind::Unavailable, explained).with_remedy(remedy);
        }
        // No wildcard arm: a new variant must choose its kind.
        let (kind, remedy) = match &error {
            StartError::HostPath { remedy, .. } => (ErrorKind::Invalid, Some(remedy.clone())),
            StartError::Tools { remedy, .. } => (ErrorKind::Invalid, Some(remedy.clone())),
            StartError::NoCommand { .. } => {
                (ErrorKind::Invalid, Some("install it, or remove it from the list".to_owned()))
            }
            StartError::Unsupported { remedy, .. } => {
                (ErrorKind::Unenforceable, Some((*remedy).to_owned()))
            }
            StartError::Interpreter(problem) => {
                (ErrorKind::Invalid, Some(problem.hint().to_owned()))
            }
            StartError::TooMuch { .. } => {
                (ErrorKind::Unenforceable, Some("ask for less, or raise the host's".to_owned()))
            }
            StartError::Filter(error @ FilterError::ForeignMachine) => {
                (ErrorKind::Unavailable, Some(error.remedy()))
            }
            StartError::Filter(error) => (ErrorKind::Invalid, Some(error.remedy())),
            StartError::Cgroup { source } => (ErrorKind::Unavailable, Some(of_cgroup(source))),
            StartError::Prepare { source, .. } => (ErrorKind::Internal, scarcity(source)),
            StartError::Carrier(CarryError::NotBuilt) => {
                (ErrorKind::Internal, Some("use a build with a guest".to_owned()))
            }
            StartError::Carrier(CarryError::File(error)) => (ErrorKind::Internal, of_memory(error)),
            StartError::Carrier(_) | StartError::Link(_) => (ErrorKind::Internal, None),
            StartError::Ids(IdRangeError::AllInUse) => {
                (ErrorKind::Unavailable, Some("end other sandboxes first".to_owned()))
            }
            StartError::Ids(_) => (
                ErrorKind::Unavailable,
                Some("allow it here, or run as an ordinary user".to_owned()),
            ),
            StartError::Left => (
                ErrorKind::Internal,
                Some(
                    "the next start of Stockade tries again; see that nothing holds it".to_owned(),
                ),
            ),
            StartError::Refused(refusal) => of_refusal(refusal),
            StartError::Died { .. } | StartError::Silent => {
                (ErrorKind::Internal, Some("see whether the host is out of memory".to_owned()))
            }
            StartError::Slow { .. } => (
                ErrorKind::Unavailable,
                Some("see whether the host is overloaded, and try again".to_owned()),
            ),
        };
        let converted = Error::new(kind, error);
        match remedy {
            Some(remedy) => converted.with_remedy(remedy),
            None => converted,
        }
    }
}

fn how(ending: &Ending) -> String {
    match (ending.signal, ending.code) {
        (Some(signal), _) => format!("by signal {signal}"),
        (None, Some(code)) => format!("with code {code}"),
        (None, None) => "for an unknown reason".to_owned(),
    }
}

/// The remedy for a failed memfd.
fn of_memory(error: &SealedFileError) -> Option<String> {
    match error {
        SealedFileError::ExecutableForbidden { .. } => {
            Some("set the sysctl vm.memfd_noexec to 0 or 1".to_owned())
        }
        SealedFileError::Create { source, .. }
        | SealedFileError::Write { source, .. }
        | SealedFileError::Seal { source, .. } => scarcity(source).or_else(|| {
            Some("this kernel or container refuses memfd_create(2); allow it".to_owned())
        }),
        _ => None,
    }
}

/// The remedy for a cgroup that failed although the host reported it as usable.
fn of_cgroup(error: &CgroupError) -> String {
    let source = std::error::Error::source(error).and_then(|it| it.downcast_ref::<io::Error>());
    let remedy = source.filter(|it| it.kind() != io::ErrorKind::StorageFull).and_then(scarcity);
    remedy.unwrap_or_else(|| {
        "see whether this user may still make cgroups, and whether too many are left (`ls \
         /sys/fs/cgroup/*/stockade`)"
            .to_owned()
    })
}

/// The remedy if the host has run out of a resource.
fn scarcity(error: &io::Error) -> Option<String> {
    let errno = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error)?;
    let remedy = match errno {
        rustix::io::Errno::MFILE => "raise the limit of open files (ulimit -n)",
        rustix::io::Errno::NFILE => "close files on the host, or raise fs.file-max",
        rustix::io::Errno::NOMEM => "free memory on the host",
        rustix::io::Errno::AGAIN => {
            "end other processes, or raise the limit of processes (ulimit -u)"
        }
        rustix::io::Errno::NOSPC => "free space on the host's disk",
        _ => return None,
    };
    Some(remedy.to_owned())
}

/// The cause of a refusal, if known.
fn explained(error: &StartError) -> Option<Obstacle> {
    match error {
        StartError::Refused(refusal) if is_of_egress(refusal) => {
            Some(obstacles::of_egress(refusal.errno))
        }
        _ => forbidden(error),
    }
}

/// Whether only egress could not be set up; the rest of the wall works without it.
pub(crate) fn is_of_egress(refusal: &Refusal) -> bool {
    refusal.phase == Phase::Inside && matches!(refusal.step.as_str(), "open_ports" | "egress")
}

/// What forbids namespaces here, if that is why the wall was refused.
fn forbidden(error: &StartError) -> Option<Obstacle> {
    let StartError::Refused(refusal) = error else { return None };
    let (step, errno) = (refusal.step.as_str(), refusal.errno);
    let found = match (refusal.phase, step) {
        (Phase::Birth, "clone" | "maps") => Some(obstacles::of_birth(step, errno, &Knobs::look())),
        // This step creates a user namespace for the id map of the mount.
        (Phase::Outside, TAKE_OWNED_TREE) if errno == Some(ENOSPC) => {
            Some(obstacles::of_birth("clone", errno, &Knobs::look()))
        }
        (Phase::Outside, TAKE_OWNED_TREE) => obstacles::forbidden(&Knobs::look()),
        _ => None,
    };
    found.map(|Obstacle { reason, remedy }| Obstacle {
        reason,
        remedy: format!("{remedy}; or accept the reduced wall, by `isolation: reduced`"),
    })
}

const ENOSPC: i32 = 28;

const TAKE_OWNED_TREE: &str = "take_owned_tree";

fn of_refusal(refusal: &Refusal) -> (ErrorKind, Option<String>) {
    if refusal.step == TAKE_OWNED_TREE {
        let remedy = "its file system cannot show files under another owner; run as an ordinary \
                      user, or copy the files to one that can";
        return (ErrorKind::Unenforceable, Some(remedy.to_owned()));
    }
    let error = refusal.errno.map(io::Error::from_raw_os_error);
    let remedy = error.as_ref().and_then(scarcity);
    let of_step = || obstacles::of_step(&refusal.step, refusal.errno, &Knobs::look());
    (ErrorKind::Unavailable, Some(remedy.unwrap_or_else(of_step)))
}
