//! Writes the code file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use futures_util::io::{AsyncRead, AsyncReadExt};
use rustix::fs::OFlags;
use rustix::process::geteuid;

const CHUNK_BYTES: usize = 64 << 10;

/// Code that was written to a file.
#[derive(Debug)]
pub(crate) struct Received {
    /// The file, open for reading and writing.
    pub(crate) file: File,
    /// Whether it is source that Python also reads from a pipe.
    pub(crate) is_plain: bool,
}

/// Writes exactly `bytes` bytes of the stream to a new file that only this user can read.
///
/// Removes the file if it cannot be written completely.
pub(crate) async fn receive(
    path: &Path,
    bytes: u64,
    stream: &mut (impl AsyncRead + Unpin),
) -> io::Result<Received> {
    let file = create(path)?;
    let received = copy(file, bytes, stream).await;
    if received.is_err() {
        // If the removal fails too, there is no way to recover.
        let _ = fs::remove_file(path);
    }
    received
}

fn create(path: &Path) -> io::Result<File> {
    make_folder(path)?;
    match create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_ours(path)? => {
            fs::remove_file(path)?;
            create_new(path)
        }
        other => other,
    }
}

/// Makes the directory of a code file.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => DirBuilder::new().recursive(true).mode(0o700).create(folder),
        None => Ok(()),
    }
}

fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(path)
}

/// Whether the path is a regular file of this user, such as the code of an earlier execution.
fn is_ours(path: &Path) -> io::Result<bool> {
    let found = fs::symlink_metadata(path)?;
    Ok(found.is_file() && found.uid() == geteuid().as_raw())
}

async fn copy(
    mut file: File,
    bytes: u64,
    stream: &mut (impl AsyncRead + Unpin),
) -> io::Result<Received> {
    let mut source = SourceCheck::default();
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let wanted = usize::try_from(left).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        match stream.read(&mut buffer[..wanted]).await? {
            0 => return Err(rustix::io::Errno::IO.into()),
            read => {
                source.next(&buffer[..read]);
                file.write_all(&buffer[..read])?;
                left -= read as u64;
            }
        }
    }
    Ok(Received { file, is_plain: source.is_plain() })
}

/// Finds out whether Python reads some code from a pipe as it does from a file. It does not if it
/// would seek: for an encoding other than UTF-8, a compiled file or a zip archive.
#[derive(Default)]
struct SourceCheck {
    /// The first two lines, as far as they were read.
    head: Vec<u8>,
    has_null: bool,
}

impl SourceCheck {
    /// The maximum size of two lines that are searched.
    const MAX_HEAD: usize = 4 << 10;

    fn next(&mut self, bytes: &[u8]) {
        // Compiled files and archives have null bytes, and source has none.
        self.has_null |= bytes.contains(&0);
        if !self.is_head_complete() {
            let room = SourceCheck::MAX_HEAD - self.head.len();
            self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    fn is_head_complete(&self) -> bool {
        self.head.len() >= SourceCheck::MAX_HEAD
    }

    fn is_plain(&self) -> bool {
        const DECLARATION: &[u8] = b"coding";
        let ends = self.head.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let end = ends.map(|(index, _)| index).nth(1);
        let is_searched = end.is_some() || !self.is_head_complete();
        let head = &self.head[..end.unwrap_or(self.head.len())];
        let declares = head.windows(DECLARATION.len()).any(|part| part == DECLARATION);
        !self.has_null && is_searched && !declares
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use futures_util::FutureExt;

    use super::*;

    fn write(path: &Path, bytes: u64, mut content: &[u8]) -> io::Result<Received> {
        receive(path, bytes, &mut content).now_or_never().expect("bytes in memory are ready")
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn file_and_missing_folders_are_made_for_this_user_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/code.py");
        write(&path, 4, b"codemore").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"code");
        assert_eq!((mode(&path), mode(&folder.path().join("a"))), (0o600, 0o700));
    }

    #[test]
    fn earlier_code_is_replaced_but_a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("code"), folder.path().join("other"));
        write(&path, 3, b"old").unwrap();
        write(&path, 3, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        fs::write(&other, "kept").unwrap();
        fs::remove_file(&path).unwrap();
        symlink(&other, &path).unwrap();
        assert_eq!(write(&path, 3, b"bad").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&other).unwrap(), b"kept");
    }

    #[test]
    fn stream_that_ends_early_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("code");
        assert!(write(&path, 9, b"short").is_err());
        assert!(!path.exists());
    }

    #[test]
    fn source_is_plain_without_a_declared_encoding_or_null_bytes() {
        let is_plain = |parts: &[&[u8]]| {
            let mut check = SourceCheck::default();
            parts.iter().for_each(|part| check.next(part));
            check.is_plain()
        };
        assert!(is_plain(&[]));
        assert!(is_plain(&[b"print(1)\n", b"\n", b"encoding = 1"]));
        assert!(!is_plain(&[b"# -*- co", b"ding: latin-1\n"]));
        assert!(!is_plain(&[b"#!/usr/bin/python3\n# vim: fileencoding=latin-1"]));
        assert!(!is_plain(&[b"print(1)\n", b"\0"]));
        let long = [b'#'; SourceCheck::MAX_HEAD];
        assert!(!is_plain(&[&long, b"coding: latin-1"]));
    }

    #[test]
    fn full_device_error_is_reported() {
        let (device, mut content) =
            (OpenOptions::new().write(true).open("/dev/full"), &b"code"[..]);
        let full = copy(device.unwrap(), 4, &mut content);
        let error = full.now_or_never().unwrap().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NOSPC.raw_os_error()));
    }
}
