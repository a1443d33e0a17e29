//! Files of the host that the tests make.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A new directory that every user may enter; dropping it removes it.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates the directory.
    #[expect(clippy::new_without_default, reason = "it makes a directory")]
    pub fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("stockade-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("a temporary directory can be made");
        set_mode(&path, 0o755);
        Scratch(path.canonicalize().expect("it has a real path"))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The directory as text.
    pub fn text(&self) -> &str {
        self.0.to_str().expect("temporary paths are text")
    }

    /// Writes a file in it that every user may read, and returns its path as text.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::write(&path, content).expect("a temporary file can be written");
        set_mode(&path, 0o644);
        path.to_str().expect("temporary paths are text").to_owned()
    }

    /// Makes a directory in it that every user may enter, and returns its path as text.
    pub fn directory(&self, name: &str) -> String {
        let path = self.0.join(name);
        fs::create_dir(&path).expect("a directory can be made");
        set_mode(&path, 0o755);
        path.to_str().expect("temporary paths are text").to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If removal fails, the system's own cleanup of temporary directories applies.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Sets the permissions of a file.
pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("the tests own their files");
}
