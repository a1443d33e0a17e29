//! What the store uses, whether it is intact, and what can be removed.

use std::collections::HashSet;
use std::fs::{self, File};

use serde::Serialize;

use crate::contents::Index;
use crate::error::{damaged, file};
use crate::store::Sharing;
use crate::{Checkpoint, Contents, Hash, Reference, Store, StoreError, pack};

/// What the store uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// How many packs.
    pub packs: usize,
    /// How many blobs.
    pub blobs: usize,
    /// The size of all packs.
    pub bytes: u64,
    /// How many checkpoints.
    pub checkpoints: usize,
    /// The most that the packs may have.
    pub quota: u64,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// How many blobs were read.
    pub blobs: usize,
    /// How many checkpoints were read.
    pub checkpoints: usize,
    /// What is damaged.
    pub problems: Vec<String>,
}

/// What a collection removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Collected {
    /// How many bytes of packs are gone.
    pub bytes: u64,
    /// How many packs are gone.
    pub packs: usize,
    /// How many files that never were complete are gone.
    pub unfinished: usize,
}

impl Store {
    /// What the store uses.
    pub fn usage(&self) -> Result<Usage, StoreError> {
        let _lock = self.lock(Sharing::Shared)?;
        let index = Index::read(self)?;
        Ok(Usage {
            packs: index.packs.len(),
            blobs: index.hashes().len(),
            bytes: index.bytes,
            checkpoints: self.references()?.len(),
            quota: self.quota,
        })
    }

    /// Reads every blob and every checkpoint.
    pub fn verify(&self) -> Result<Verified, StoreError> {
        let _lock = self.lock(Sharing::Shared)?;
        let mut verified = Verified::default();
        for path in self.packs()? {
            let opened = File::open(&path).map_err(file("open", &path))?;
            let index = match pack::index(&opened, &path) {
                Ok(index) => index,
                Err(error) => {
                    verified.problems.push(error.to_string());
                    continue;
                }
            };
            for (hash, located) in index {
                verified.blobs += 1;
                if let Err(error) = pack::blob(&opened, &path, hash, located) {
                    verified.problems.push(error.to_string());
                }
            }
        }
        for reference in self.references()? {
            verified.checkpoints += 1;
            let checked = self.checkpoint(&reference).and_then(|it| self.check(&it));
            match checked {
                Ok(()) | Err(StoreError::Missing { .. }) => {}
                Err(error) => verified.problems.push(format!("checkpoint {reference}: {error}")),
            }
        }
        Ok(verified)
    }

    /// Removes blobs that no checkpoint has. Waits until no other process uses the store.
    pub fn collect(&self) -> Result<Collected, StoreError> {
        let _lock = self.lock(Sharing::Alone)?;
        self.sweep_passing()?;
        let mut collected = Collected::default();
        let new = self.directory.join("new");
        for entry in fs::read_dir(&new).map_err(file("read", &new))? {
            let path = entry.map_err(file("read", &new))?.path();
            fs::remove_file(&path).map_err(file("remove", &path))?;
            collected.unfinished += 1;
        }
        let mut live = self.live(&self.references()?)?;
        // What this collection wrote: a pack with the same blobs has the same path.
        let mut fresh = HashSet::new();
        for (path, opened, index) in Index::read(self)?.packs {
            if fresh.contains(&path) {
                continue;
            }
            let count = index.len();
            let length = opened.metadata().map_err(file("read", &path))?.len();
            let kept: Vec<_> = index.into_iter().filter(|(hash, _)| live.contains(hash)).collect();
            let kept_bytes: u64 = kept.iter().map(|(_, located)| u64::from(located.stored)).sum();
            // Rewriting costs what is kept, so it must free at least as much.
            if kept.len() == count || !kept.is_empty() && kept_bytes * 2 > length {
                // A blob that is kept here needs no second copy.
                kept.iter().for_each(|(hash, _)| _ = live.remove(hash));
                continue;
            }
            let mut written = 0;
            if !kept.is_empty() {
                let mut blobs = Vec::new();
                for (hash, located) in kept {
                    blobs.push((hash, pack::blob(&opened, &path, hash, located)?));
                    live.remove(&hash);
                }
                let (new, bytes) = self.repack(blobs)?;
                let is_itself = new == path;
                fresh.insert(new);
                if is_itself {
                    continue;
                }
                written = bytes;
            }
            fs::remove_file(&path).map_err(file("remove", &path))?;
            collected.packs += 1;
            collected.bytes += length.saturating_sub(written);
        }
        crate::store::sync_directory(&self.directory.join("packs"))?;
        Ok(collected)
    }

    /// The blobs that these checkpoints need. Removing a checkpoint takes no lock, so each may be gone
    /// since they were listed; then nothing needs its blobs.
    fn live(&self, references: &[Reference]) -> Result<HashSet<Hash>, StoreError> {
        let mut live = HashSet::new();
        for reference in references {
            match self.checkpoint(reference) {
                Ok(checkpoint) => self.names(&checkpoint, &mut live)?,
                Err(StoreError::Missing { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(live)
    }

    fn check(&self, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        let mut needed = HashSet::new();
        self.names(checkpoint, &mut needed)?;
        let has = Index::read(self)?.hashes();
        match needed.iter().find(|hash| !has.contains(hash)) {
            Some(hash) => Err(damaged(&self.directory, format!("the blob {hash} is missing"))),
            None => Ok(()),
        }
    }

    /// The blobs that a checkpoint needs.
    fn names(&self, checkpoint: &Checkpoint, names: &mut HashSet<Hash>) -> Result<(), StoreError> {
        names.extend(&checkpoint.tree);
        Contents::unlocked(self, checkpoint)?.walk(|_, chunks| {
            names.extend(chunks.iter().map(|chunk| chunk.hash));
            Ok(())
        })
    }
}

#[cfg(test)]
#[path = "collect_tests.rs"]
mod tests;
