//! The cache folder for tools, shared between runs and clones.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// The folder for one version of a tool; it may not exist yet.
pub(crate) fn tool_folder(name_and_version: &str) -> Result<PathBuf> {
    Ok(folder()?.join("tools").join(name_and_version))
}

/// The cache folder of this project; it may not exist yet.
pub(crate) fn folder() -> Result<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from)
        .or_else(|| env::home_dir().map(|home| home.join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME is set, so there is no folder for tools")?;
    Ok(cache.join("stockade"))
}
