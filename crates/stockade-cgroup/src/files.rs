//! Reads and writes the small files of a cgroup; each error names its file.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::CgroupError;
use stockade_sys::kernel_text;

/// Writes a value with one system call: the kernel treats each write as a whole command.
pub(super) fn put(path: &Path, value: &str) -> io::Result<()> {
    // Never created: a missing file means a missing feature.
    OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
}

/// Like [`put`], with the file and the value in the error.
pub(super) fn write(path: &Path, value: &str) -> Result<(), CgroupError> {
    put(path, value).map_err(|source| CgroupError::Write {
        path: path.to_owned(),
        value: value.to_owned(),
        source,
    })
}

/// The text of a file.
pub(super) fn read(path: &Path) -> Result<String, CgroupError> {
    kernel_text(path).map_err(|source| CgroupError::Read { path: path.to_owned(), source })
}

/// A file that contains a single number.
pub(super) fn read_number(path: &Path) -> Result<u64, CgroupError> {
    let unexpected = || CgroupError::Unexpected { path: path.to_owned(), expected: "a number" };
    read(path)?.trim().parse().map_err(|_| unexpected())
}

/// The number after a key, in a file of lines `key number`.
pub(super) fn read_keyed(path: &Path, key: &'static str) -> Result<u64, CgroupError> {
    let unexpected = || CgroupError::Unexpected { path: path.to_owned(), expected: key };
    keyed(&read(path)?, key).ok_or_else(unexpected)
}

/// The direct subdirectories, by the types in the listing: follows no links.
pub(super) fn directories(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Whether an error means that the group itself is removed. Open files of a removed group return
/// ENODEV.
pub(super) fn is_gone(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    errno == Some(Errno::NOENT.raw_os_error()) || errno == Some(Errno::NODEV.raw_os_error())
}

fn keyed(text: &str, key: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_a_whole_word() {
        let text = "oom 1\noom_kill 2\noom_group_kill 3\n";
        assert_eq!(keyed(text, "oom_kill"), Some(2));
        assert_eq!(keyed(text, "oom"), Some(1));
        assert_eq!(keyed(text, "low"), None);
        assert_eq!(keyed("max many\n", "max"), None);
    }
}
