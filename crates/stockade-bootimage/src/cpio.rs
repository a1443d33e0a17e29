//! cpio archives of the format `newc`, which the kernel reads at boot and busybox unpacks.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;

/// Disks are read in sectors.
const SECTOR: u64 = 512;

/// An archive under construction; root owns everything in it. The kernel accepts several, one after
/// the other.
#[derive(Debug)]
pub struct Cpio<W> {
    to: W,
    written: u64,
    entries: u32,
    directories: Vec<PathBuf>,
}

impl<W: Write> Cpio<W> {
    /// Starts an archive.
    pub fn new(to: W) -> Cpio<W> {
        Cpio { to, written: 0, entries: 0, directories: Vec::new() }
    }

    /// Adds a file with these bytes, and the directories above it.
    pub fn file(&mut self, path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
        self.parents(path)?;
        self.entry(path, REGULAR | mode, bytes.len() as u64, bytes)
    }

    /// Adds a directory, and those above it.
    pub fn directory(&mut self, path: &Path) -> io::Result<()> {
        if path.as_os_str().is_empty() || self.directories.iter().any(|made| made == path) {
            return Ok(());
        }
        self.parents(path)?;
        self.directories.push(path.to_path_buf());
        self.entry(path, DIRECTORY | 0o755, 0, io::empty())
    }

    /// Adds a file or a directory of the host with its contents, following symbolic links.
    pub fn host(&mut self, from: &Path, path: &Path) -> io::Result<()> {
        let metadata = fs::metadata(from)?;
        if !metadata.is_dir() {
            self.parents(path)?;
            let mode = REGULAR | (metadata.permissions().mode() & 0o777);
            return self.entry(path, mode, metadata.len(), File::open(from)?);
        }
        self.directory(path)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            self.host(&from.join(&name), &path.join(&name))?;
        }
        Ok(())
    }

    /// Ends the archive, padded to whole sectors.
    pub fn finish(mut self) -> io::Result<W> {
        self.entry(Path::new("TRAILER!!!"), 0, 0, io::empty())?;
        self.pad(SECTOR)?;
        Ok(self.to)
    }

    fn parents(&mut self, path: &Path) -> io::Result<()> {
        self.directory(path.parent().unwrap_or(Path::new("")))
    }

    fn entry(&mut self, path: &Path, mode: u32, size: u64, bytes: impl Read) -> io::Result<()> {
        let name = path.as_os_str().as_bytes();
        let shown = path.display();
        if name.starts_with(b"/") {
            return Err(io::Error::other(format!(
                "{shown}: names in an archive begin at its root"
            )));
        }
        self.entries += 1;
        let too_large = |_| io::Error::other(format!("{shown} is too large"));
        let length = u32::try_from(size).map_err(too_large)?;
        // Inode, mode, owner, group, links, time, size, two devices, length of the name, checksum.
        let fields = [self.entries, mode, 0, 0, 1, 0, length, 0, 0, 0, 0, name.len() as u32 + 1, 0];
        let mut header = String::from("070701");
        header.extend(fields.map(|field| format!("{field:08x}")));
        self.write(header.as_bytes())?;
        self.write(name)?;
        self.write(b"\0")?;
        self.pad(4)?;
        let copied = io::copy(&mut bytes.take(size), &mut self.to)?;
        if copied != size {
            return Err(io::Error::other(format!("{shown} became shorter while it was read")));
        }
        self.written += size;
        self.pad(4)
    }

    fn pad(&mut self, unit: u64) -> io::Result<()> {
        let missing = self.written.next_multiple_of(unit) - self.written;
        self.write(&vec![0; missing as usize])
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_has_every_directory_above_a_file_once_and_whole_sectors() {
        let mut archive = Cpio::new(Vec::new());
        archive.file(Path::new("a/b/c"), 0o444, b"content").unwrap();
        archive.file(Path::new("a/b/d"), 0o444, b"").unwrap();
        assert!(archive.file(Path::new("/etc/passwd"), 0o444, b"").is_err());
        let bytes = archive.finish().unwrap();
        assert_eq!(bytes.len() % 512, 0);
        let text = String::from_utf8(bytes).unwrap();
        let count = |name: &str| text.matches(&format!("{name}\0")).count();
        assert_eq!([count("a"), count("a/b"), count("a/b/c"), count("a/b/d")], [1, 1, 1, 1]);
    }
}
