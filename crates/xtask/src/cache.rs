//! Where tools are kept between runs and clones.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// The folder for a tool of exactly one version; it may not exist yet.
pub(crate) fn tool_folder(name_and_version: &str) -> Result<PathBuf> {
    Ok(folder()?.join("tools").join(name_and_version))
}

/// The folder for everything of ours; it may not exist yet.
pub(crate) fn folder() -> Result<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from)
        .or_else(|| env::home_dir().map(|home| home.join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME says where tools may be kept")?;
    Ok(cache.join("stockade"))
}
