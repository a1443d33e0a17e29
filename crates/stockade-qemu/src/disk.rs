//! Checks a disk of the caller before QEMU opens it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::QemuError;

const MAGIC: &[u8] = b"QFI\xfb";
/// The part of the header that is read.
const HEADER: usize = 80;
/// A feature of version 3: the data is in another file.
const DATA_FILE: u32 = 1 << 2;

/// Refuses what is not a qcow2 file of its own: one that names further files would make QEMU open
/// them.
pub(crate) fn check_disk(path: &Path) -> Result<(), QemuError> {
    let unsupported = |reason: &str| QemuError::Unsupported {
        what: "--vm-disk",
        reason: format!("{} {reason}", path.display()),
        remedy: "convert it with `qemu-img convert -O qcow2 DISK NEW.qcow2`, or unpack its files \
                 and use `stockade image build --vm NAME --from dir:PATH`",
    };
    let mut header = [0; HEADER];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut header));
    read.map_err(|error| unsupported(&format!("cannot be read: {error}")))?;
    let number = |at: usize| {
        let bytes: [u8; 4] = header[at..at + 4].try_into().expect("a range of four bytes");
        u32::from_be_bytes(bytes)
    };
    if !header.starts_with(MAGIC) {
        return Err(unsupported("is not a qcow2 file"));
    }
    // The offset of the name of the backing file.
    if (number(8), number(12)) != (0, 0) {
        return Err(unsupported("has a backing file"));
    }
    if number(32) != 0 {
        return Err(unsupported("is encrypted"));
    }
    match number(4) {
        2 => Ok(()),
        3 if number(76) & DATA_FILE == 0 => Ok(()),
        3 => Err(unsupported("keeps its data in another file")),
        other => Err(unsupported(&format!("has the unknown version {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(change: impl FnOnce(&mut Vec<u8>)) -> Result<(), String> {
        let mut header = vec![0; 112];
        header[..8].copy_from_slice(b"QFI\xfb\0\0\0\x03");
        change(&mut header);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        std::fs::write(&path, header).unwrap();
        check_disk(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn disk_that_names_other_files_is_refused() {
        checked(|_| {}).unwrap();
        checked(|header| header[7] = 2).unwrap();
        for (at, part) in [(0, "not a qcow2"), (15, "backing"), (35, "encrypted"), (7, "version")] {
            let refused = checked(|header| header[at] = 9).unwrap_err();
            assert!(refused.contains(part), "{at}: {refused}");
        }
        let refused = checked(|header| header[79] = 4).unwrap_err();
        assert!(refused.contains("another file"), "{refused}");
        assert!(checked(|header| header.truncate(50)).unwrap_err().contains("cannot be read"));
    }
}
