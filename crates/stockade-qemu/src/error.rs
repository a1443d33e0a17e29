//! Errors of the virtual machine wall, and their mapping to the caller's error kinds.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use stockade_archive::ArchiveError;
use stockade_bootimage::BootImageError;
use stockade_carrier::LinkError;
use stockade_hostfiles::{FilterError, HostFileError};
use stockade_provider::{Error, ErrorKind, Obstacle, chain};

/// A machine could not be planned, started or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QemuError {
    /// QEMU is not installed.
    #[error("there is no {program} in {}", places.join(", "))]
    NoQemu {
        /// The program.
        program: &'static str,
        /// Where the wall around QEMU looks for programs.
        places: Vec<&'static str>,
    },
    /// This build is for a processor whose machines are not started.
    #[error("this version starts virtual machines only on x86_64")]
    ForeignMachine,
    /// The caller has no directory for images.
    #[error("there is no directory for machine images: neither XDG_DATA_HOME nor HOME is set")]
    NoStore,
    /// The image cannot be used.
    #[error(transparent)]
    Image(#[from] BootImageError),
    /// The wall around QEMU cannot be built.
    #[error("cannot build the wall around QEMU: {message}")]
    Jail {
        /// The error of that wall.
        message: String,
        /// Its advice.
        remedy: Option<String>,
    },
    /// The machine ended before its guest answered.
    #[error("the machine ended while it started; its console's last lines:\n{console}")]
    Boot {
        /// The console's last lines.
        console: String,
    },
    /// The guest did not answer in time.
    #[error(
        "the machine did not answer within {} s; its console's last lines:\n{console}",
        limit.as_secs()
    )]
    Slow {
        /// The limit.
        limit: Duration,
        /// The console's last lines.
        console: String,
    },
    /// The request needs something that this wall does not support.
    #[error("cannot use {what} here: {reason}")]
    Unsupported {
        /// The requested feature.
        what: &'static str,
        /// Why not.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The files of the policy are too large to copy.
    #[error("cannot copy {} into the machine: the files of the policy have more than {most} MiB", path.display())]
    TooLarge {
        /// The file or directory that is too much.
        path: PathBuf,
        /// The maximum in MiB.
        most: u64,
    },
    /// A file of the policy cannot be copied.
    #[error("cannot copy {} into the machine", path.display())]
    Copy {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: ArchiveError,
    },
    /// What programs wrote cannot be copied to the host.
    #[error("cannot copy what programs wrote to the host")]
    Deliver {
        /// Why.
        #[source]
        source: ArchiveError,
    },
    /// Some of what programs wrote cannot be on the host.
    #[error("cannot copy {count} of what programs wrote to the host: {named}")]
    Undelivered {
        /// How many entries.
        count: u64,
        /// The first of them, and why.
        named: String,
    },
    /// Copying to the host takes too long.
    #[error(
        "what programs wrote was not copied to the host within {} s, so the machine was ended",
        most.as_secs()
    )]
    SlowDelivery {
        /// The limit.
        most: Duration,
    },
    /// A host path of the policy cannot be used.
    #[error(transparent)]
    HostFile(#[from] HostFileError),
    /// A system-call filter cannot be made.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The link to the guest could not be opened.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// This build carries no guest.
    #[error("this build has no guest for machines")]
    NoGuest,
    /// Preparing something on this host failed.
    #[error("cannot {doing}")]
    Prepare {
        /// The operation.
        doing: &'static str,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
}

impl QemuError {
    /// An error of the wall around QEMU.
    pub(crate) fn jail(error: &Error) -> QemuError {
        let remedy = error.remedy().map(str::to_owned);
        QemuError::Jail { message: chain(error), remedy }
    }

    /// The error in one line: of a console, the last one.
    pub(crate) fn last_line(&self) -> String {
        match self {
            QemuError::Boot { console } => console.lines().last().unwrap_or("(nothing)").to_owned(),
            QemuError::Slow { limit, .. } => format!("no answer within {} s", limit.as_secs()),
            other => chain(other),
        }
    }

    /// The error as a reason and a remedy.
    pub(crate) fn into_obstacle(self) -> Obstacle {
        let remedy = self.remedy().unwrap_or_else(|| "see docs/vm.md".to_owned());
        Obstacle { reason: chain(&self), remedy }
    }

    fn remedy(&self) -> Option<String> {
        Some(match self {
            QemuError::NoQemu { .. } => {
                "as root, run `apt-get install --no-install-recommends qemu-system-x86`".to_owned()
            }
            QemuError::ForeignMachine => "use another wall".to_owned(),
            QemuError::NoStore => "set HOME".to_owned(),
            QemuError::Image(error) => error.remedy(),
            QemuError::Jail { remedy, .. } => return remedy.clone(),
            QemuError::Boot { .. } => {
                "read the console; `stockade doctor` tries the parts of this wall".to_owned()
            }
            QemuError::Slow { .. } => {
                "give it more processors with --cpus, or look at the load of this host".to_owned()
            }
            QemuError::Unsupported { remedy, .. } => (*remedy).to_owned(),
            QemuError::TooLarge { .. } => {
                "show fewer files, or use a wall that mounts them, such as native".to_owned()
            }
            QemuError::HostFile(HostFileError::Path { remedy, .. }) => remedy.clone(),
            QemuError::Filter(error) => error.remedy(),
            QemuError::Copy { .. } | QemuError::Deliver { .. } => {
                "check the files and their permissions".to_owned()
            }
            QemuError::Undelivered { .. } => {
                "write only files, directories and links that stay in the directory; the rest is there"
                    .to_owned()
            }
            QemuError::SlowDelivery { .. } => "write less, or use the native wall".to_owned(),
            QemuError::HostFile(HostFileError::Mounts { .. })
            | QemuError::Link(_)
            | QemuError::NoGuest
            | QemuError::Prepare { .. } => return None,
        })
    }
}

impl From<QemuError> for Error {
    fn from(error: QemuError) -> Error {
        // No wildcard arm: a new variant must choose its kind.
        let kind = match &error {
            QemuError::Image(_)
            | QemuError::TooLarge { .. }
            | QemuError::Copy { .. }
            | QemuError::Deliver { .. }
            | QemuError::Undelivered { .. }
            | QemuError::HostFile(_) => ErrorKind::Invalid,
            QemuError::Filter(FilterError::ForeignMachine) => ErrorKind::Unavailable,
            QemuError::Filter(_) => ErrorKind::Invalid,
            QemuError::Unsupported { .. } => ErrorKind::Unenforceable,
            QemuError::NoQemu { .. }
            | QemuError::ForeignMachine
            | QemuError::NoStore
            | QemuError::Jail { .. }
            | QemuError::Boot { .. }
            | QemuError::Slow { .. }
            | QemuError::SlowDelivery { .. } => ErrorKind::Unavailable,
            QemuError::NoGuest | QemuError::Prepare { .. } => ErrorKind::Internal,
            QemuError::Link(_) => ErrorKind::Lost,
        };
        let remedy = error.remedy();
        let error = Error::new(kind, error);
        match remedy {
            Some(remedy) => error.with_remedy(remedy),
            None => error,
        }
    }
}
