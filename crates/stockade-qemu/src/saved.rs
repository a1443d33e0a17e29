//! The saved machines of an image.
//!
//! ```text
//! machines/NAME/saved/  KEY.state  KEY.json  .lock
//! missing ── save ──▶ kept ── every check passes ──▶ continued
//!                       └── another owner, other bytes ──▶ removed, and the machine boots
//! ```
//! Only the owner can open the directory. A state is hashed again whenever its stamp differs from
//! that of the last check. They disappear with their image.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::OFlags;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use stockade_bootimage::{Stamp, hash_of, hash_of_bytes, hash_open};
use tempfile::NamedTempFile;

use crate::Accelerator;
use crate::command::{Begin, Machine, command};

/// The directory in that of the image.
const DIRECTORY: &str = "saved";
const LOCK: &str = ".lock";
/// The most machines that are kept for one image: one for each size, accelerator and version.
const MOST: usize = 4;
/// The free space below which none is saved.
const LEAST_FREE_BYTES: u64 = 512 << 20;

/// What a saved machine depends on, as one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key(String);

impl Key {
    pub(crate) fn of(parts: &[&str]) -> Key {
        Key(hash_of(parts))
    }
}

/// The name of the state of a machine: QEMU's executable, the image, everything about the machine,
/// and what it boots, which contains the guest.
pub(crate) fn key(
    qemu: &Path,
    image: &str,
    machine: &Machine,
    initramfs: &[u8],
) -> io::Result<Key> {
    let qemu = fs::metadata(qemu)?;
    let program = format!(
        "{}:{}:{}:{}:{}",
        qemu.dev(),
        qemu.ino(),
        qemu.size(),
        qemu.ctime(),
        qemu.ctime_nsec()
    );
    let processor = match machine.accelerator {
        // The processor is the host's.
        Accelerator::Kvm => fs::read_to_string("/proc/cpuinfo")?
            .lines()
            .filter(|line| line.starts_with("model name") || line.starts_with("flags"))
            .take(2)
            .collect(),
        Accelerator::Tcg => String::new(),
    };
    let words = command(machine, Begin::Continue).join(" ");
    Ok(Key::of(&[&program, &processor, image, &words, &hash_of_bytes(initramfs)]))
}

/// The saved machines of one image.
#[derive(Clone, Debug)]
pub(crate) struct SavedMachines {
    directory: PathBuf,
}

/// The description of a state.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    sha256: String,
    stamp: Stamp,
}

/// What [`SavedMachines::find`] found.
#[derive(Debug)]
pub(crate) enum Found {
    /// A state that passed every check, open at its first byte.
    State(File),
    Nothing,
    /// One that must not be used, and why.
    Unusable(String),
}

/// A state under construction. No other process writes one for the same image meanwhile.
pub(crate) struct Unfinished {
    file: NamedTempFile,
    _lock: File,
}

impl Unfinished {
    /// Another descriptor of the file.
    pub(crate) fn file(&self) -> io::Result<File> {
        self.file.as_file().try_clone()
    }
}

impl SavedMachines {
    pub(crate) fn of(image: &Path) -> SavedMachines {
        SavedMachines { directory: image.join(DIRECTORY) }
    }

    /// The state of a key. One that fails a check is removed. Blocks.
    pub(crate) fn find(&self, key: &Key) -> Found {
        match self.checked(key) {
            Ok(Some(state)) => Found::State(state),
            Ok(None) => Found::Nothing,
            Err(reason) => {
                self.discard(key);
                Found::Unusable(format!("the saved machine cannot be used: {reason}"))
            }
        }
    }

    fn checked(&self, key: &Key) -> Result<Option<File>, String> {
        let text = |error: io::Error| error.to_string();
        match self.check_directory() {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(text(error)),
        }
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        let state = match File::options().read(true).custom_flags(flags).open(self.state(key)) {
            Ok(state) => state,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(text(error)),
        };
        let found = state.metadata().map_err(text)?;
        if !found.is_file() || found.uid() != geteuid().as_raw() || found.mode() & 0o077 != 0 {
            return Err("another user can have written its state".to_owned());
        }
        let written = fs::read(self.description(key)).map_err(text)?;
        let written: Description = serde_json::from_slice(&written)
            .map_err(|error| format!("its description is damaged: {error}"))?;
        let stamp = Stamp::of_open(&state).map_err(text)?;
        if stamp != written.stamp {
            let sha256 = hash_open(&state).map_err(text)?;
            if sha256 != written.sha256 {
                let expected = written.sha256;
                return Err(format!("its state is damaged: it hashes to {sha256}, not {expected}"));
            }
            io::Seek::rewind(&mut &state).map_err(text)?;
            self.describe(key, &Description { sha256, stamp }).map_err(text)?;
        }
        // The one that was not used for the longest time is removed first.
        let used = File::options().append(true).open(self.description(key));
        used.and_then(|file| file.set_modified(SystemTime::now())).map_err(text)?;
        Ok(Some(state))
    }

    /// Makes room for a new state. The error is the reason why none is saved. Blocks.
    pub(crate) fn begin(&self) -> Result<Unfinished, String> {
        let begun = || {
            match DirBuilder::new().mode(0o700).create(&self.directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => self.check_directory()?,
            }
            let lock = File::create(self.directory.join(LOCK))?;
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => {
                    return Err(io::Error::other("another process saves one just now"));
                }
            }
            let space = rustix::fs::statvfs(&self.directory)?;
            if space.f_bavail.saturating_mul(space.f_frsize) < LEAST_FREE_BYTES {
                let least = LEAST_FREE_BYTES >> 20;
                let place = self.directory.display();
                return Err(io::Error::other(format!("less than {least} MiB are free in {place}")));
            }
            let file = NamedTempFile::new_in(&self.directory)?;
            Ok(Unfinished { file, _lock: lock })
        };
        begun().map_err(|error| format!("no machine can be saved: {error}"))
    }

    /// Keeps a finished state, and removes the least recently used beyond the maximum. Blocks.
    pub(crate) fn keep(&self, key: &Key, unfinished: Unfinished) -> Result<(), String> {
        let kept = || {
            let path = unfinished.file.path().to_owned();
            let sha256 = hash_open(&File::open(&path)?)?;
            // The rename is a change of the file, so its stamp is taken after it.
            let state = unfinished.file.persist(self.state(key)).map_err(|error| error.error)?;
            self.describe(key, &Description { sha256, stamp: Stamp::of_open(&state)? })?;
            self.remove_unused()
        };
        kept().map_err(|error: io::Error| format!("cannot keep the saved machine: {error}"))
    }

    /// Removes a state.
    pub(crate) fn discard(&self, key: &Key) {
        let _ = fs::remove_file(self.description(key));
        let _ = fs::remove_file(self.state(key));
    }

    fn check_directory(&self) -> io::Result<()> {
        let found = fs::symlink_metadata(&self.directory)?;
        if found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0 {
            return Ok(());
        }
        let place = self.directory.display();
        Err(io::Error::other(format!("{place} is not a directory that only its owner can open")))
    }

    fn describe(&self, key: &Key, description: &Description) -> io::Result<()> {
        let file = NamedTempFile::new_in(&self.directory)?;
        serde_json::to_writer(file.as_file(), description)?;
        file.persist(self.description(key)).map_err(|error| error.error)?;
        Ok(())
    }

    fn remove_unused(&self) -> io::Result<()> {
        let mut described: Vec<(SystemTime, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                described.push((fs::metadata(&path)?.modified()?, path));
            }
        }
        described.sort();
        for (_, path) in described.iter().rev().skip(MOST) {
            // Without its description, a state is not used.
            fs::remove_file(path)?;
            fs::remove_file(path.with_extension("state"))?;
        }
        Ok(())
    }

    fn state(&self, key: &Key) -> PathBuf {
        self.directory.join(format!("{}.state", key.0))
    }

    fn description(&self, key: &Key) -> PathBuf {
        self.directory.join(format!("{}.json", key.0))
    }
}

#[cfg(test)]
#[path = "saved_tests.rs"]
mod tests;
