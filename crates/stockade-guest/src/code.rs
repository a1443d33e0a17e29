//! Writes the code file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use futures_util::io::{AsyncRead, AsyncReadExt};
use rustix::fs::OFlags;
use rustix::process::geteuid;

const CHUNK_BYTES: usize = 64 << 10;

/// Writes exactly `bytes` bytes of the stream to a new file that only this user can read.
///
/// Removes the file if it cannot be written completely.
pub(crate) async fn receive(
    path: &Path,
    bytes: u64,
    stream: &mut (impl AsyncRead + Unpin),
) -> io::Result<()> {
    let file = create(path)?;
    let received = copy(file, bytes, stream).await;
    if received.is_err() {
        // If the removal fails too, there is no way to recover.
        let _ = fs::remove_file(path);
    }
    received
}

fn create(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    match create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_ours(path)? => {
            fs::remove_file(path)?;
            create_new(path)
        }
        other => other,
    }
}

fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new()
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

async fn copy(mut file: File, bytes: u64, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let wanted = usize::try_from(left).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        match stream.read(&mut buffer[..wanted]).await? {
            0 => return Err(rustix::io::Errno::IO.into()),
            read => {
                file.write_all(&buffer[..read])?;
                left -= read as u64;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use futures_util::FutureExt;

    use super::*;

    fn write(path: &Path, bytes: u64, mut content: &[u8]) -> io::Result<()> {
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
    fn full_device_error_is_reported() {
        let (device, mut content) =
            (OpenOptions::new().write(true).open("/dev/full"), &b"code"[..]);
        let full = copy(device.unwrap(), 4, &mut content);
        let error = full.now_or_never().unwrap().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NOSPC.raw_os_error()));
    }
}
