//! Hashes of files, and stamps that show whether a file can have changed since.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What changes with every write to a file, without the file's bytes: an ordinary user cannot set
/// the time of the last change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Stamp {
    /// The stamp of the file at a path.
    pub fn of(path: &Path) -> io::Result<Stamp> {
        Ok(Stamp::from(&fs::metadata(path)?))
    }

    /// The stamp of an open file.
    pub fn of_open(file: &File) -> io::Result<Stamp> {
        Ok(Stamp::from(&file.metadata()?))
    }
}

impl From<&fs::Metadata> for Stamp {
    fn from(found: &fs::Metadata) -> Stamp {
        Stamp {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.size(),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }
}

/// The SHA-256 of a file, in hexadecimal digits.
pub(crate) fn hash(path: &Path) -> io::Result<String> {
    hash_open(&File::open(path)?)
}

/// The SHA-256 of an open file from its position to its end.
pub fn hash_open(mut file: &File) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match io::Read::read(&mut file, &mut buffer)? {
            0 => break,
            read => hasher.update(&buffer[..read]),
        }
    }
    Ok(hex(&hasher.finalize()))
}

/// The SHA-256 of several texts.
pub fn hash_of(texts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update(text.as_bytes());
        hasher.update([0]);
    }
    hex(&hasher.finalize())
}

/// The SHA-256 of bytes.
pub fn hash_of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
