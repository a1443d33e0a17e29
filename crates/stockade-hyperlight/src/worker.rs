//! The worker's executable and the image that it loads.

use std::env;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};
use stockade_wasm::{CompiledFile, WasmError, compiled_for, component_directory, is_compiled_for};

use crate::HyperlightError;
use crate::link::{is_permission, words_of};

/// The variable that names the worker's executable, if it is elsewhere.
pub const WORKER: &str = "STOCKADE_HYPERLIGHT_WORKER";

/// The worker and its image, verified. The image stays on the disk while this value exists.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) worker: PathBuf,
    pub(crate) image: CompiledFile,
}

/// The worker on this host, for display.
#[derive(Clone, Debug, serde::Serialize)]
pub struct WorkerLook {
    /// Where it is, or would be.
    pub path: PathBuf,
    /// Why it cannot be used, if it cannot.
    pub unusable: Option<String>,
    /// What to do then.
    pub remedy: Option<String>,
}

/// Looks at the worker without starting it.
pub fn look() -> WorkerLook {
    let path = place().unwrap_or_else(|_| PathBuf::from("stockade/hyperlight/worker"));
    let error = worker().err().map(|error| crate::obstacle(&error));
    WorkerLook {
        path,
        unusable: error.as_ref().map(|error| error.reason.clone()),
        remedy: error.map(|error| error.remedy),
    }
}

/// `stockade/hyperlight/worker` in the cache directory, or at the path in the variable.
fn place() -> Result<PathBuf, HyperlightError> {
    if let Some(path) = env::var_os(WORKER).map(PathBuf::from).filter(|path| path.is_absolute()) {
        return Ok(path);
    }
    let components = component_directory().ok_or(WasmError::NoCache)?;
    Ok(components.with_file_name("hyperlight").join("worker"))
}

/// The worker's executable, if no other user could have written it.
pub(crate) fn worker() -> Result<PathBuf, HyperlightError> {
    let path = place()?;
    let untrusted = |why| Err(WasmError::Untrusted { path: path.clone(), why }.into());
    let found = match std::fs::metadata(&path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(HyperlightError::NoWorker { path });
        }
        Err(source) => {
            return Err(WasmError::File { doing: "look at", path: path.clone(), source }.into());
        }
    };
    let owner = rustix::process::geteuid().as_raw();
    if ![0, owner].contains(&found.uid()) {
        return untrusted("it belongs to another user");
    }
    match found.is_file() && found.mode() & 0o022 == 0 && found.mode() & 0o111 != 0 {
        true => Ok(path),
        false => untrusted("it is not an executable that only its owner can change"),
    }
}

/// The worker and its image; the first use compiles the image, which takes a minute. Blocks.
pub(crate) fn parts() -> Result<Parts, HyperlightError> {
    let worker = worker()?;
    let image =
        compiled_for(&engine(&worker)?, &|component, image| compile(&worker, component, image))?;
    Ok(Parts { worker, image })
}

/// Whether the image is compiled already. Blocks.
pub(crate) fn is_compiled() -> Result<bool, HyperlightError> {
    Ok(is_compiled_for(&engine(&worker()?)?)?)
}

/// The name of the engine that loads the image.
fn engine(worker: &Path) -> Result<String, HyperlightError> {
    Ok(format!("hyperlight-{}", &digest(worker)?[..16]))
}

/// Runs the worker as a compiler, on the component that this version was built for.
fn compile(worker: &Path, component: &Path, image: &Path) -> Result<(), String> {
    let mut command = Command::new(worker);
    command.arg("compile").arg(component).arg(image);
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null());
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(words_of(&output.stderr)),
    }
}

/// Starts a trial machine without a jail, which runs no program. An error means that KVM cannot run
/// one, and not that the caller may not use it.
pub(crate) fn probe_as_caller(worker: &Path) -> Result<(), HyperlightError> {
    let mut command = Command::new(worker);
    command.arg("probe").env_clear().stdin(Stdio::null()).stdout(Stdio::null());
    let failed = |source| WasmError::File { doing: "start", path: worker.to_owned(), source };
    let output = command.output().map_err(failed)?;
    let reason = words_of(&output.stderr);
    match output.status.success() || is_permission(&reason) {
        true => Ok(()),
        false => Err(HyperlightError::Kvm { reason }),
    }
}

fn digest(path: &Path) -> Result<String, HyperlightError> {
    let failed = |source| WasmError::File { doing: "read", path: path.to_owned(), source };
    let mut file = File::open(path).map_err(failed)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(failed)? {
            0 => break,
            count => hasher.update(&buffer[..count]),
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
