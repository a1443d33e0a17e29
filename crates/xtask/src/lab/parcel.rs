//! cpio archives of the format `newc`, which the kernel reads at boot and busybox unpacks.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;

/// Disks are read in sectors.
const SECTOR: u64 = 512;

/// An archive under construction; root owns everything in it.
pub(crate) struct Parcel<W> {
    to: W,
    written: u64,
    entries: u32,
    directories: Vec<PathBuf>,
}

impl<W: Write> Parcel<W> {
    pub(crate) fn new(to: W) -> Parcel<W> {
        Parcel { to, written: 0, entries: 0, directories: Vec::new() }
    }

    /// Adds a file with these bytes, and the directories above it.
    pub(crate) fn file(&mut self, path: &Path, mode: u32, bytes: &[u8]) -> Result<()> {
        self.parents(path)?;
        self.entry(path, REGULAR | mode, bytes.len() as u64, bytes)
    }

    /// Adds a directory, and those above it.
    pub(crate) fn directory(&mut self, path: &Path) -> Result<()> {
        if path.as_os_str().is_empty() || self.directories.iter().any(|made| made == path) {
            return Ok(());
        }
        self.parents(path)?;
        self.directories.push(path.to_path_buf());
        self.entry(path, DIRECTORY | 0o755, 0, io::empty())
    }

    /// Adds a file or a directory of the host with its contents, following symbolic links.
    pub(crate) fn host(&mut self, from: &Path, path: &Path) -> Result<()> {
        let failed = || format!("cannot copy {}", from.display());
        let metadata = fs::metadata(from).with_context(failed)?;
        if !metadata.is_dir() {
            self.parents(path)?;
            let mode = REGULAR | (metadata.permissions().mode() & 0o777);
            let file = File::open(from).with_context(failed)?;
            return self.entry(path, mode, metadata.len(), file).with_context(failed);
        }
        self.directory(path)?;
        for entry in fs::read_dir(from).with_context(failed)? {
            let name = entry.with_context(failed)?.file_name();
            self.host(&from.join(&name), &path.join(&name))?;
        }
        Ok(())
    }

    /// Ends the archive, padded to whole sectors.
    pub(crate) fn finish(mut self) -> Result<W> {
        self.entry(Path::new("TRAILER!!!"), 0, 0, io::empty())?;
        self.pad(SECTOR)?;
        Ok(self.to)
    }

    fn parents(&mut self, path: &Path) -> Result<()> {
        self.directory(path.parent().unwrap_or(Path::new("")))
    }

    fn entry(&mut self, path: &Path, mode: u32, size: u64, bytes: impl Read) -> Result<()> {
        let name = path.as_os_str().as_bytes();
        let shown = path.display();
        ensure!(!name.starts_with(b"/"), "{shown}: names in an archive begin at its root");
        self.entries += 1;
        let length = u32::try_from(size).with_context(|| format!("{shown} is too large"))?;
        // Inode, mode, owner, group, links, time, size, two devices, length of the name, checksum.
        let fields = [self.entries, mode, 0, 0, 1, 0, length, 0, 0, 0, 0, name.len() as u32 + 1, 0];
        let mut header = String::from("070701");
        header.extend(fields.map(|field| format!("{field:08x}")));
        self.write(header.as_bytes())?;
        self.write(name)?;
        self.write(b"\0")?;
        self.pad(4)?;
        let copied = io::copy(&mut bytes.take(size), &mut self.to)?;
        ensure!(copied == size, "{shown} became shorter while it was read");
        self.written += size;
        self.pad(4)
    }

    fn pad(&mut self, unit: u64) -> Result<()> {
        let missing = self.written.next_multiple_of(unit) - self.written;
        self.write(&vec![0; missing as usize])
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.to.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}
