//! Paths inside a machine, resolved below its root and nowhere else.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

/// The files of a machine.
pub(crate) struct Files<'r>(pub(crate) &'r Path);

impl Files<'_> {
    /// Opens a path as seen from inside, links included.
    fn open(&self, path: &Path) -> io::Result<OwnedFd> {
        let root = rustix::fs::openat(CWD, self.0, OFlags::PATH, Mode::empty())?;
        let path = path.strip_prefix("/").unwrap_or(path);
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Ok(openat2(root, path, OFlags::PATH, Mode::empty(), ResolveFlags::IN_ROOT)?)
    }

    /// A path of this process that means the one inside.
    fn outside(&self, path: &str) -> io::Result<(OwnedFd, PathBuf)> {
        let file = self.open(Path::new(path))?;
        let outside = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        Ok((file, outside))
    }

    /// The directory above a path, and its last part.
    fn parent<'p>(&self, path: &'p str) -> io::Result<(OwnedFd, PathBuf, &'p OsStr)> {
        let path = Path::new(path);
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let above = path.parent().unwrap_or(Path::new("/"));
        let directory = self.open(above)?;
        let outside = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
        Ok((directory, outside, name))
    }

    pub(crate) fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let (_held, outside) = self.outside(path)?;
        fs::read(outside)
    }

    pub(crate) fn metadata(&self, path: &str) -> io::Result<fs::Metadata> {
        let (_held, outside) = self.outside(path)?;
        fs::metadata(outside)
    }

    pub(crate) fn list(&self, path: &str) -> io::Result<Vec<(String, fs::Metadata)>> {
        let (_held, outside) = self.outside(path)?;
        let mut found = Vec::new();
        for entry in fs::read_dir(outside)? {
            let entry = entry?;
            let Ok(metadata) = entry.metadata() else { continue };
            found.push((entry.file_name().to_string_lossy().into_owned(), metadata));
        }
        found.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(found)
    }

    pub(crate) fn write(
        &self,
        path: &str,
        makes: bool,
        mode: Option<u32>,
        data: &[u8],
    ) -> io::Result<()> {
        if makes && let Some(above) = Path::new(path).parent() {
            self.make_directories(above)?;
        }
        let (_held, directory, name) = self.parent(path)?;
        let place = directory.join(name);
        fs::write(&place, data)?;
        match mode {
            Some(mode) => fs::set_permissions(&place, fs::Permissions::from_mode(mode)),
            None => Ok(()),
        }
    }

    pub(crate) fn make_directories(&self, path: &Path) -> io::Result<()> {
        if self.open(path).is_ok() {
            return Ok(());
        }
        if let Some(above) = path.parent() {
            self.make_directories(above)?;
        }
        let text = path.to_str().ok_or(io::ErrorKind::InvalidInput)?;
        let (_held, directory, name) = self.parent(text)?;
        fs::create_dir(directory.join(name))
    }

    pub(crate) fn remove(&self, path: &str, recursive: bool) -> io::Result<()> {
        let (_held, directory, name) = self.parent(path)?;
        let place = directory.join(name);
        match fs::symlink_metadata(&place)?.is_dir() {
            true if recursive => fs::remove_dir_all(place),
            true => fs::remove_dir(place),
            false => fs::remove_file(place),
        }
    }
}
