//! Compiles the component for the micro-VM's runtime.

use std::fs;
use std::path::Path;

use wasmtime::{Config, Engine};

use crate::renaming::renamed;

/// What the runtime inside the machine is built for.
const TARGET: &str = "x86_64-unknown-none";

/// Compiles a component into an image. The host has verified the component.
pub(crate) fn compile(component: &Path, image: &Path) -> Result<(), String> {
    let failed = |what: &str, why: String| format!("cannot {what}: {why}");
    let bytes = fs::read(component).map_err(|why| failed("read the component", why.to_string()))?;
    let mut config = Config::new();
    config.target(TARGET).map_err(|why| failed("choose the target", why.to_string()))?;
    let engine =
        Engine::new(&config).map_err(|why| failed("start the compiler", format!("{why:#}")))?;
    let compiled = engine.precompile_component(&renamed(&bytes));
    let compiled = compiled.map_err(|why| failed("compile the component", format!("{why:#}")))?;
    fs::write(image, compiled).map_err(|why| failed("write the image", why.to_string()))
}
