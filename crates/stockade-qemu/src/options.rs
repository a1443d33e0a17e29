//! What the caller chooses.

use std::path::PathBuf;

/// The image of a machine, if the caller names none.
pub const DEFAULT_IMAGE: &str = "default";

/// Where images are, and how machines start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QemuOptions {
    /// The directory of images; `None` if the caller has no home.
    pub machines: Option<PathBuf>,
    /// Whether every machine boots, instead of continuing a saved one.
    pub always_boots: bool,
}
