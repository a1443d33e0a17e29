//! Errors of this wall.

use std::path::PathBuf;

use stockade_provider::{Error, ErrorKind, Obstacle};
use stockade_wasm::WasmError;

/// Why the wall cannot be used, or a sandbox cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HyperlightError {
    /// The worker has not been built.
    #[error("the worker of the hyperlight wall is not built: {path} is missing", path = path.display())]
    NoWorker {
        /// Where it would be.
        path: PathBuf,
    },
    /// The host has no virtual machines.
    #[error("there is no /dev/kvm on this host")]
    NoKvm,
    /// The host has another hypervisor.
    #[error(
        "this host has {name}, and the worker uses KVM only: Microsoft's hypervisor (mshv) and the \
         Windows Hypervisor Platform (WHP) are not supported"
    )]
    OtherHypervisor {
        /// Its device.
        name: &'static str,
    },
    /// A trial machine could not open the device.
    #[error("/dev/kvm cannot be opened by the worker's user: {reason}")]
    Permission {
        /// The worker's last output.
        reason: String,
    },
    /// The device is there, and a trial machine did not start on it.
    #[error("the KVM of this host cannot run a micro-VM: {reason}")]
    Kvm {
        /// The worker's last output.
        reason: String,
    },
    /// The jail around the worker cannot be built.
    #[error("the wall around the worker: {message}")]
    Jail {
        /// Why.
        message: String,
        /// What to do.
        remedy: Option<String>,
    },
    /// The machine did not start.
    #[error("the micro-VM does not start: {reason}")]
    Start {
        /// The worker's last output.
        reason: String,
    },
    /// The component cannot be used.
    #[error(transparent)]
    Component {
        /// Why.
        #[from]
        source: WasmError,
    },
}

impl HyperlightError {
    pub(crate) fn jail(error: &Error) -> HyperlightError {
        let message = stockade_provider::chain(error);
        HyperlightError::Jail { message, remedy: error.remedy().map(str::to_owned) }
    }

    fn remedy(&self) -> String {
        const OTHER: &str = "use the wasm wall, which runs the same component";
        match self {
            HyperlightError::NoWorker { .. } => {
                "run `cargo xtask hyperlight` in a clone of Stockade, once; it needs rustup, clang \
                 and lld, and takes about ten minutes"
                    .to_owned()
            }
            HyperlightError::NoKvm | HyperlightError::OtherHypervisor { .. } => {
                format!("use a host with hardware virtualisation and the module kvm, or {OTHER}")
            }
            HyperlightError::Permission { .. } => {
                format!("let every user open it, as systemd does: `chmod 666 /dev/kvm`; or {OTHER}")
            }
            HyperlightError::Kvm { .. } => format!(
                "use a host whose KVM runs ordinary guests (bare metal, or nested virtualisation), \
                 or {OTHER}"
            ),
            HyperlightError::Jail { remedy: Some(remedy), .. } => remedy.clone(),
            HyperlightError::Component { source } => stockade_wasm::obstacle(source).remedy,
            HyperlightError::Jail { remedy: None, .. } | HyperlightError::Start { .. } => {
                OTHER.to_owned()
            }
        }
    }
}

/// The reason and the remedy.
pub fn obstacle(error: &HyperlightError) -> Obstacle {
    Obstacle { reason: stockade_provider::chain(error), remedy: error.remedy() }
}

impl From<HyperlightError> for Error {
    fn from(error: HyperlightError) -> Error {
        let remedy = error.remedy();
        let kind = match error {
            HyperlightError::Component { source } => return source.into(),
            _ => ErrorKind::Unavailable,
        };
        Error::new(kind, error).with_remedy(remedy)
    }
}
