//! The component, ready to be instantiated, once per process.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::WasmError;
use crate::bindings::PythonPre;
use crate::compiled::{Artefacts, CompiledFile, InUse};
use crate::component::{component_path, digest, is_embedded};
use crate::engine::engine;
use crate::guest::{Guest, link};

/// The component, compiled and linked.
pub(crate) struct Template {
    pub(crate) python: PythonPre<Guest>,
    /// No process removes the compiled component while this one runs.
    _in_use: InUse,
}

impl Template {
    /// The template. The first call in a process loads it, and the first on a host compiles it,
    /// which blocks the thread for up to a minute.
    pub(crate) fn get() -> Result<Arc<Template>, WasmError> {
        static LOADED: OnceLock<Arc<Template>> = OnceLock::new();
        static LOADING: Mutex<()> = Mutex::new(());
        if let Some(template) = LOADED.get() {
            return Ok(Arc::clone(template));
        }
        let _loading = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(template) = LOADED.get() {
            return Ok(Arc::clone(template));
        }
        let (component, in_use) = Artefacts::open()?.component(engine()?, &show)?;
        let template = Arc::new(Template { python: link(&component)?, _in_use: in_use });
        Ok(Arc::clone(LOADED.get_or_init(|| template)))
    }
}

static SHOW: Mutex<fn(&str)> = Mutex::new(|_| {});

/// Sets what shows the user a line about work of this process that takes long, such as compiling
/// the component. It is called on threads that may block. Without one nothing is shown.
pub fn show_progress(show: fn(&str)) {
    *SHOW.lock().unwrap_or_else(PoisonError::into_inner) = show;
}

fn show(text: &str) {
    let show = *SHOW.lock().unwrap_or_else(PoisonError::into_inner);
    show(text);
}

/// The verified component in the form of another engine, as a file of the caller's own directory.
/// `compile` makes it from one file in another; only the first use calls it.
pub fn compiled_for(
    engine: &str,
    compile: &dyn Fn(&Path, &Path) -> Result<(), String>,
) -> Result<CompiledFile, WasmError> {
    Artefacts::open()?.other(engine, compile, &show)
}

/// Whether [`compiled_for`] has made its file already.
pub fn is_compiled_for(engine: &str) -> Result<bool, WasmError> {
    Artefacts::open()?.has_other(engine)
}

/// The component on this host, for display.
#[derive(Clone, Debug)]
pub struct ComponentLook {
    /// Where it is.
    pub path: PathBuf,
    /// Its digest.
    pub digest: &'static str,
    /// Whether it is compiled for this processor.
    pub is_compiled: bool,
    /// The engine's version.
    pub engine: &'static str,
}

/// Looks at the component without compiling or running it.
pub fn look() -> Result<ComponentLook, WasmError> {
    let path = component_path()?;
    let is_compiled = Artefacts::open()?.is_compiled(engine()?)?;
    if !is_compiled && !is_embedded() && !path.exists() {
        return Err(WasmError::NoComponent { path });
    }
    Ok(ComponentLook { path, digest: digest(), is_compiled, engine: ENGINE_VERSION })
}

/// The version of the engine, for display.
pub(crate) const ENGINE_VERSION: &str = "wasmtime 48";
