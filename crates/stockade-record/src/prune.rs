//! Removes old records.

use std::io;
use std::path::PathBuf;

use crate::{Listed, Time};

/// Which records to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// Remove only records of sessions that started before this time.
    pub before: Time,
    /// How many of the newest records to keep, however old.
    pub keep: usize,
}

/// Why a record was not removed.
#[derive(Debug, thiserror::Error)]
#[error("cannot remove the record {}", path.display())]
pub struct PruneError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: io::Error,
}

impl Pruned {
    /// The records to remove, from `records` sorted oldest first. A record that is still being
    /// written stays.
    pub fn of<'l>(&self, records: &'l [Listed]) -> Vec<&'l Listed> {
        let old = records.len().saturating_sub(self.keep);
        let goes = |record: &&Listed| record.is_before(self.before) && !record.is_live();
        records.iter().take(old).filter(goes).collect()
    }
}

/// Removes one record.
pub fn prune(record: &Listed) -> Result<(), PruneError> {
    std::fs::remove_file(&record.path)
        .map_err(|source| PruneError { path: record.path.clone(), source })
}
