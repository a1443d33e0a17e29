//! Files of the host that the tests make.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A fresh directory that everybody may enter; it is removed when it is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes one.
    pub(crate) fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("stockade-run-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a temporary directory can be made");
        set_mode(&path, 0o755);
        Scratch(path)
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The directory as text.
    pub(crate) fn text(&self) -> &str {
        self.0.to_str().expect("temporary paths are text")
    }

    /// Writes a file in it and returns its path as text.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).expect("a temporary file can be written");
        set_mode(&path, 0o644);
        path.to_str().expect("temporary paths are text").to_owned()
    }

    /// Makes a directory in it and returns its path as text.
    pub(crate) fn directory(&self, name: &str) -> String {
        let path = self.0.join(name);
        std::fs::create_dir(&path).expect("a directory can be made");
        set_mode(&path, 0o755);
        path.to_str().expect("temporary paths are text").to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left for the system's own cleaning of its temporary directory if it cannot be removed.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Sets the permissions of a file.
pub(crate) fn set_mode(path: &Path, mode: u32) {
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, permissions).expect("the tests own their files");
}
