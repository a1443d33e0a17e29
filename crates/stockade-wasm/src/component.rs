//! Where the component is, and whether it is the right one.

use std::env;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::DeflateDecoder;
use sha2::{Digest, Sha256};

use crate::WasmError;

/// The SHA-256 of the component that this version runs. `cargo xtask component python` builds
/// exactly these bytes on every machine.
pub const COMPONENT_DIGEST: &str = include_str!("../../../components/python/component.sha256");

/// Larger files are not a component.
const MAX_COMPONENT: u64 = 256 << 20;

/// The component of a released build, compressed; empty in any other.
const EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/component.deflate"));

/// The directory of components and of their compiled form: `stockade/wasm` in `XDG_CACHE_HOME`,
/// else in `.cache` in the home directory.
pub fn component_directory() -> Option<PathBuf> {
    let path = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = path("XDG_CACHE_HOME").or_else(|| Some(path("HOME")?.join(".cache")))?;
    Some(cache.join("stockade/wasm"))
}

/// The digest without its line end.
pub(crate) fn digest() -> &'static str {
    COMPONENT_DIGEST.trim()
}

/// Where the component is.
pub(crate) fn component_path() -> Result<PathBuf, WasmError> {
    let directory = component_directory().ok_or(WasmError::NoCache)?;
    Ok(directory.join(format!("python-{}.wasm", &digest()[..16])))
}

/// Whether this build contains the component.
pub(crate) fn is_embedded() -> bool {
    !EMBEDDED.is_empty()
}

/// The bytes of the component, if they are the ones that this version was built for. Who wrote them
/// does not matter then.
pub(crate) fn component() -> Result<Vec<u8>, WasmError> {
    let path = component_path()?;
    let bytes = match is_embedded() {
        true => unpacked(&path)?,
        false => kept(&path)?,
    };
    if hex(&Sha256::digest(&bytes)) != digest() {
        return Err(WasmError::Altered { path });
    }
    Ok(bytes)
}

fn unpacked(path: &Path) -> Result<Vec<u8>, WasmError> {
    let mut bytes = Vec::new();
    let read = DeflateDecoder::new(EMBEDDED).take(MAX_COMPONENT).read_to_end(&mut bytes);
    read.map_err(|_| WasmError::Altered { path: path.to_owned() })?;
    Ok(bytes)
}

fn kept(path: &Path) -> Result<Vec<u8>, WasmError> {
    let failed = |doing| {
        let path = path.to_owned();
        move |source| WasmError::File { doing, path, source }
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(WasmError::NoComponent { path: path.to_owned() });
        }
        Err(error) => return Err(failed("open")(error)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_COMPONENT).read_to_end(&mut bytes).map_err(failed("read"))?;
    Ok(bytes)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
