//! Checkpoints that exist only while a command looks at them.
//!
//! ```text
//! STORE/passing/SESSION,NAME    empty, and locked as long as the command lives
//! ```
//! A command that is killed leaves its checkpoint and this file, whose lock is then free: the next
//! such command, or a collection, removes both.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::file;
use crate::store::Sharing;
use crate::{Reference, Store, StoreError};

/// How long a session may take to make the checkpoint of a command that was killed.
const MAKING: Duration = Duration::from_secs(3600);

/// A name for a passing checkpoint. Dropping it removes the checkpoint, if it was made.
#[derive(Debug)]
pub struct Passing {
    store: Store,
    reference: Reference,
    path: PathBuf,
    _lock: File,
}

impl Store {
    /// Reserves a name, before the checkpoint is made. Removes what killed commands left.
    pub fn passing(&self, reference: &Reference) -> Result<Passing, StoreError> {
        self.sweep_passing()?;
        // A collection removes every file that is not complete.
        let _shared = self.lock(Sharing::Shared)?;
        let (lock, new) = self.new_file()?;
        let path = self.passing_path(reference);
        // Locked before it has its name: a sweep takes a free lock for that of a dead process.
        let locked = flock(&lock, FlockOperation::NonBlockingLockExclusive);
        if let Err(error) = locked.map_err(io::Error::from).and_then(|()| fs::rename(&new, &path)) {
            let _ = fs::remove_file(&new);
            return Err(file("create", &path)(error));
        }
        Ok(Passing { store: self.clone(), reference: reference.clone(), path, _lock: lock })
    }

    /// Removes passing checkpoints whose command has ended.
    pub(crate) fn sweep_passing(&self) -> Result<(), StoreError> {
        let directory = self.directory.join("passing");
        for entry in fs::read_dir(&directory).map_err(file("read", &directory))? {
            let path = entry.map_err(file("read", &directory))?.path();
            match self.sweep_one(&path) {
                // Its command has ended meanwhile.
                Err(error) if error.is_not_found() => {}
                swept => swept?,
            }
        }
        Ok(())
    }

    fn sweep_one(&self, path: &Path) -> Result<(), StoreError> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some((session, name)) = name.split_once(',') else { return Ok(()) };
        let Ok(reference) = Reference::new(session, name) else { return Ok(()) };
        let lock = File::open(path).map_err(file("open", path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Ok(()),
            locked => locked.map_err(|errno| file("lock", path)(errno.into()))?,
        }
        let made = lock.metadata().and_then(|found| found.modified());
        let is_old = made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > MAKING));
        match self.remove(&reference) {
            // Its session may still be making it.
            Err(StoreError::Missing { .. }) if !is_old => return Ok(()),
            Err(StoreError::Missing { .. }) => {}
            removed => removed?,
        }
        fs::remove_file(path).map_err(file("remove", path))
    }

    fn passing_path(&self, reference: &Reference) -> PathBuf {
        // No name has a comma.
        let name = format!("{},{}", reference.session(), reference.name());
        self.directory.join("passing").join(name)
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        // Fails if it was not made, or was removed by hand; the next sweep removes what is left.
        let _ = self.store.remove(&self.reference);
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::{keep, store, tree};

    fn marks(store: &Store) -> usize {
        fs::read_dir(store.directory().join("passing")).unwrap().count()
    }

    #[test]
    fn passing_checkpoint_is_gone_with_its_command_or_at_the_next_sweep() {
        let (_place, store) = store();
        let reference: Reference = "s/look-1".parse().unwrap();
        let passing = store.passing(&reference).unwrap();
        keep(&store, "look-1", &tree(&[])).unwrap();
        // One in use stays.
        store.collect().unwrap();
        assert_eq!((store.checkpoints(None).unwrap().len(), marks(&store)), (1, 1));
        // What a killed process leaves: its files, without the lock.
        let left = store.passing_path(&"s/look-2".parse().unwrap());
        File::create(&left).unwrap();
        keep(&store, "look-2", &tree(&[])).unwrap();
        // A checkpoint of a person has no mark, whatever its name.
        keep(&store, "look-3", &tree(&[])).unwrap();
        store.collect().unwrap();
        let names = || -> Vec<String> {
            store.checkpoints(None).unwrap().into_iter().map(|it| it.name).collect()
        };
        assert_eq!((names(), marks(&store)), (vec!["look-1".into(), "look-3".into()], 1));
        drop(passing);
        assert_eq!((names(), marks(&store)), (vec!["look-3".into()], 0));
    }

    #[test]
    fn mark_of_a_killed_command_stays_while_its_checkpoint_may_still_be_made() {
        let (_place, store) = store();
        let left = store.passing_path(&"s/look-1".parse().unwrap());
        File::create(&left).unwrap();
        store.collect().unwrap();
        assert_eq!(marks(&store), 1);
        keep(&store, "look-1", &tree(&[])).unwrap();
        let other = store.passing(&"s/look-2".parse().unwrap()).unwrap();
        assert_eq!((store.checkpoints(None).unwrap().len(), marks(&store)), (0, 1));
        drop(other);
        let long_ago = std::time::SystemTime::now() - 2 * MAKING;
        File::create(&left).unwrap().set_modified(long_ago).unwrap();
        store.collect().unwrap();
        assert_eq!(marks(&store), 0);
    }
}
