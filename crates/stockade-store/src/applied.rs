//! What was applied of a session to a host directory, so that applying again is no conflict.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{damaged, file};
use crate::store::{MAX_RECORD_BYTES, Sharing, read, sync_directory};
use crate::{Checkpoint, Hash, Store, StoreError};

impl Store {
    /// The files that were applied, by their paths.
    pub fn applied(
        &self,
        checkpoint: &Checkpoint,
        target: &Path,
    ) -> Result<BTreeMap<String, Hash>, StoreError> {
        let path = self.applied_path(checkpoint, target);
        match read(&path, MAX_RECORD_BYTES) {
            Err(error) if error.is_not_found() => Ok(BTreeMap::new()),
            text => {
                serde_json::from_slice(&text?).map_err(|error| damaged(&path, error.to_string()))
            }
        }
    }

    /// Keeps them for the next time.
    pub fn keep_applied(
        &self,
        checkpoint: &Checkpoint,
        target: &Path,
        applied: &BTreeMap<String, Hash>,
    ) -> Result<(), StoreError> {
        let path = self.applied_path(checkpoint, target);
        let text =
            serde_json::to_vec(applied).map_err(|error| damaged(&path, error.to_string()))?;
        // A collection removes every file that is not complete.
        let _lock = self.lock(Sharing::Shared)?;
        let (mut new, new_path) = self.new_file()?;
        let written = new.write_all(&text).and_then(|()| new.sync_data());
        if let Err(error) = written.and_then(|()| fs::rename(&new_path, &path)) {
            let _ = fs::remove_file(&new_path);
            return Err(file("write", &path)(error));
        }
        sync_directory(&self.directory.join("applied"))
    }

    fn applied_path(&self, checkpoint: &Checkpoint, target: &Path) -> PathBuf {
        let Checkpoint { session, started_ms, .. } = checkpoint;
        let key = format!("{session}\0{started_ms}\0{}", target.display());
        self.directory.join("applied").join(Hash::of(key.as_bytes()).to_string())
    }
}
