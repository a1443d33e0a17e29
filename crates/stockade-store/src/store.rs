//! The directory of the store.
//!
//! ```text
//! STORE/lock                       shared while a checkpoint is made or read, exclusive for gc
//! STORE/new/RANDOM                 a file that is not complete; gc removes it
//! STORE/packs/HEX.pack             blobs
//! STORE/checkpoints/SESSION/NAME   the record of a checkpoint, as JSON
//! STORE/applied/HEX                what was applied of a session to a directory, as JSON
//! STORE/passing/SESSION,NAME       a checkpoint that a running command removes at its end
//! ```

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, OFlags, RenameFlags, flock, renameat_with};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::error::{damaged, file};
use crate::{Checkpoint, Reference, StoreError};

/// The quota if none is set: 10 GiB.
const DEFAULT_QUOTA: u64 = 10 << 30;
/// The maximum length of the record of a checkpoint.
pub(crate) const MAX_RECORD_BYTES: u64 = 16 << 20;

/// Where the checkpoints of a user are: `STOCKADE_STORE`, `stockade/store` in `XDG_DATA_HOME`, or
/// in `.local/share` in the home. `None` without a home.
pub fn store_directory(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(named) = path("STOCKADE_STORE") {
        return Some(named);
    }
    let data = path("XDG_DATA_HOME").or_else(|| Some(path("HOME")?.join(".local/share")))?;
    Some(data.join("stockade").join("store"))
}

/// The checkpoints of a user.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) directory: PathBuf,
    pub(crate) quota: u64,
}

/// The lock of the store, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "the open file holds the lock")] File);

/// Whether others may use the store at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    Shared,
    Alone,
}

impl Store {
    /// Opens the store, and creates it if it is missing. Refuses one that another user could change.
    pub fn open(directory: &Path) -> Result<Store, StoreError> {
        private(DirBuilder::new().recursive(true), directory)?;
        for name in ["new", "packs", "checkpoints", "applied", "passing"] {
            private(&mut DirBuilder::new(), &directory.join(name))?;
        }
        Ok(Store { directory: directory.to_owned(), quota: DEFAULT_QUOTA })
    }

    /// The same store with another quota in bytes.
    pub fn with_quota(self, quota: u64) -> Store {
        Store { quota, ..self }
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// All checkpoints, or those of one session, by session and time.
    pub fn checkpoints(&self, session: Option<&str>) -> Result<Vec<Checkpoint>, StoreError> {
        let mut found = Vec::new();
        for reference in self.references()? {
            if session.is_some_and(|session| session != reference.session()) {
                continue;
            }
            match self.checkpoint(&reference) {
                Ok(checkpoint) => found.push(checkpoint),
                // Removed meanwhile.
                Err(StoreError::Missing { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        found.sort_by(|one, other| {
            (&one.session, one.created_ms, &one.name).cmp(&(
                &other.session,
                other.created_ms,
                &other.name,
            ))
        });
        Ok(found)
    }

    /// One checkpoint.
    pub fn checkpoint(&self, reference: &Reference) -> Result<Checkpoint, StoreError> {
        let path = self.record(reference);
        let text = match read(&path, MAX_RECORD_BYTES) {
            Err(error) if error.is_not_found() => {
                return Err(StoreError::Missing { reference: reference.to_string() });
            }
            text => text?,
        };
        let checkpoint: Checkpoint =
            serde_json::from_slice(&text).map_err(|error| damaged(&path, error.to_string()))?;
        let is_named = checkpoint.reference().is_ok_and(|named| named == *reference);
        match checkpoint.version == Checkpoint::VERSION && is_named {
            true => Ok(checkpoint),
            false => Err(damaged(&path, "it is the record of another checkpoint or version")),
        }
    }

    /// A checkpoint by its whole reference, or by its name in a session or in one that the session
    /// was forked from.
    pub fn find(
        &self,
        session: &str,
        ancestors: &[String],
        text: &str,
    ) -> Result<Checkpoint, StoreError> {
        let first = self.checkpoint(&Reference::within(session, text)?);
        if text.contains('/') || !matches!(first, Err(StoreError::Missing { .. })) {
            return first;
        }
        for ancestor in ancestors {
            match self.checkpoint(&Reference::new(ancestor, text)?) {
                Err(StoreError::Missing { .. }) => {}
                found => return found,
            }
        }
        first
    }

    /// Removes a checkpoint. Its blobs stay until [`Store::collect`].
    pub fn remove(&self, reference: &Reference) -> Result<(), StoreError> {
        let path = self.record(reference);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::Missing { reference: reference.to_string() });
            }
            removed => removed.map_err(file("remove", &path))?,
        }
        let directory = self.directory.join("checkpoints").join(reference.session());
        sync_directory(&directory)?;
        // Fails while the session has other checkpoints.
        let _ = fs::remove_dir(&directory);
        Ok(())
    }

    /// Refuses a name that a checkpoint has.
    pub fn check_free(&self, reference: &Reference) -> Result<(), StoreError> {
        match self.record(reference).symlink_metadata() {
            Ok(_) => Err(StoreError::Taken { reference: reference.to_string() }),
            Err(_) => Ok(()),
        }
    }

    /// Makes a checkpoint visible. Everything that it needs is on the disk before.
    pub(crate) fn publish(&self, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        let reference = checkpoint.reference()?;
        let path = self.record(&reference);
        let text =
            serde_json::to_vec(checkpoint).map_err(|error| damaged(&path, error.to_string()))?;
        let (mut new, new_path) = self.new_file()?;
        let write = new.write_all(&text).and_then(|()| new.sync_all());
        let all = self.directory.join("checkpoints");
        let directory = all.join(reference.session());
        let published = write.map_err(file("write", &new_path)).and_then(|()| {
            // Another process may remove the empty directory at any moment.
            for _ in 0..100 {
                match private(&mut DirBuilder::new(), &directory) {
                    Err(error) if error.is_not_found() => continue,
                    made => made?,
                }
                match renameat_with(CWD, &new_path, CWD, &path, RenameFlags::NOREPLACE) {
                    Err(Errno::NOENT) => {}
                    Err(Errno::EXIST) => {
                        return Err(StoreError::Taken { reference: reference.to_string() });
                    }
                    renamed => return renamed.map_err(|errno| file("create", &path)(errno.into())),
                }
            }
            Err(file("create", &path)(io::ErrorKind::NotFound.into()))
        });
        if published.is_err() {
            let _ = fs::remove_file(&new_path);
            return published;
        }
        sync_directory(&directory)?;
        sync_directory(&all)
    }

    /// A new file, which is not visible until it is renamed.
    pub(crate) fn new_file(&self) -> Result<(File, PathBuf), StoreError> {
        let directory = self.directory.join("new");
        let mut random = [0_u8; 16];
        let filled = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
        filled.map_err(|errno| file("name a file in", &directory)(errno.into()))?;
        let path = directory.join(format!("{:032x}", u128::from_le_bytes(random)));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let opened = options.open(&path).map_err(file("create", &path))?;
        Ok((opened, path))
    }

    pub(crate) fn lock(&self, sharing: Sharing) -> Result<Lock, StoreError> {
        let path = self.directory.join("lock");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
        let lock = options.open(&path).map_err(file("open", &path))?;
        let operation = match sharing {
            Sharing::Shared => FlockOperation::LockShared,
            Sharing::Alone => FlockOperation::LockExclusive,
        };
        loop {
            match flock(&lock, operation) {
                Err(Errno::INTR) => {}
                locked => {
                    locked.map_err(|errno| file("lock", &path)(errno.into()))?;
                    return Ok(Lock(lock));
                }
            }
        }
    }

    /// The paths of all packs.
    pub(crate) fn packs(&self) -> Result<Vec<PathBuf>, StoreError> {
        let directory = self.directory.join("packs");
        let mut packs = Vec::new();
        for entry in fs::read_dir(&directory).map_err(file("read", &directory))? {
            packs.push(entry.map_err(file("read", &directory))?.path());
        }
        packs.sort();
        Ok(packs)
    }

    /// The names of all checkpoints.
    pub(crate) fn references(&self) -> Result<Vec<Reference>, StoreError> {
        let all = self.directory.join("checkpoints");
        let mut references = Vec::new();
        for session in names(&all)? {
            let inner = match names(&all.join(&session)) {
                Err(error) if error.is_not_found() => continue,
                inner => inner?,
            };
            for name in inner {
                let reference = Reference::new(&session, &name);
                let path = all.join(&session).join(&name);
                let reference = reference.map_err(|_| damaged(&path, "its name is not valid"))?;
                references.push(reference);
            }
        }
        references.sort();
        Ok(references)
    }

    fn record(&self, reference: &Reference) -> PathBuf {
        self.directory.join("checkpoints").join(reference.session()).join(reference.name())
    }
}

fn names(directory: &Path) -> Result<Vec<String>, StoreError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(file("read", directory))? {
        let name = entry.map_err(file("read", directory))?.file_name();
        let name = name.into_string().map_err(|_| damaged(directory, "a name is not text"))?;
        names.push(name);
    }
    Ok(names)
}

/// Reads a short file; a link is not followed.
pub(crate) fn read(path: &Path, most: u64) -> Result<Vec<u8>, StoreError> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let opened = opened.map_err(file("read", path))?;
    let mut bytes = Vec::new();
    opened.take(most + 1).read_to_end(&mut bytes).map_err(file("read", path))?;
    match bytes.len() as u64 > most {
        true => Err(damaged(path, "it is too long")),
        false => Ok(bytes),
    }
}

/// Writes the names in a directory to the disk.
pub(crate) fn sync_directory(path: &Path) -> Result<(), StoreError> {
    match File::open(path).and_then(|directory| directory.sync_all()) {
        // Another process removed the empty directory of a session.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        synced => synced.map_err(file("write", path)),
    }
}

/// Creates a directory for its owner alone, or checks the existing one.
fn private(builder: &mut DirBuilder, path: &Path) -> Result<(), StoreError> {
    match builder.mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(file("create", path)(error));
        }
        _ => {}
    }
    let found = fs::symlink_metadata(path).map_err(file("read", path))?;
    let refused = |reason| Err(StoreError::Unsafe { path: path.to_owned(), reason });
    if !found.is_dir() {
        return refused("it is not a directory");
    }
    if found.uid() != geteuid().as_raw() {
        return refused("it belongs to another user");
    }
    if found.mode() & 0o022 != 0 {
        return refused("other users can write to it");
    }
    Ok(())
}

#[cfg(test)]
#[path = "store_tests.rs"]
pub(crate) mod tests;
