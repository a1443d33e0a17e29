//! Checks that records follow each other as a tree does.

use std::collections::HashSet;

use super::record::{MAX_DEPTH, Record, refused};
use crate::{ArchiveError, Refusal};

/// Checks a sequence of records. Every reader of records from elsewhere uses one.
#[derive(Debug, Default)]
pub struct Order {
    /// The last name of each open directory; the first is that of the place.
    last: Vec<Vec<u8>>,
    /// The number of the last place.
    place: Option<u32>,
    /// Whether the current place has only changes.
    changes: bool,
    /// The files that hard links may name.
    files: HashSet<u64>,
    entries: u64,
    has_ended: bool,
}

impl Order {
    /// Checks the next record. `most` is the maximum number of entries.
    pub fn check(&mut self, record: &Record, most: u64) -> Result<(), ArchiveError> {
        let damaged = || refused(record.name().unwrap_or_default(), Refusal::Damaged);
        if self.has_ended {
            return Err(damaged());
        }
        if let Some(name) = record.name() {
            self.entries += 1;
            if self.entries > most {
                return Err(refused(name, Refusal::TooLarge));
            }
            // Sorted names: none can occur twice.
            let last = self.last.last_mut().ok_or_else(damaged)?;
            if !last.is_empty() && name <= last.as_slice() {
                return Err(refused(name, Refusal::Duplicate));
            }
            name.clone_into(last);
        }
        match record {
            Record::Place { number, changes, .. } => {
                let is_next = self.place.is_none_or(|last| last < *number);
                if self.last.len() > 1 || !is_next {
                    return Err(damaged());
                }
                (self.place, self.changes, self.last) = (Some(*number), *changes, vec![Vec::new()]);
            }
            Record::Enter { name, replaces, .. } => {
                if self.last.len() > MAX_DEPTH {
                    return Err(refused(name, Refusal::TooLarge));
                }
                if *replaces && !self.changes {
                    return Err(damaged());
                }
                self.last.push(Vec::new());
            }
            Record::Leave => {
                if self.last.len() < 2 {
                    return Err(damaged());
                }
                self.last.pop();
            }
            Record::File(head) => {
                if head.link.is_some_and(|link| !self.files.insert(link)) {
                    return Err(damaged());
                }
            }
            Record::HardLink { name, link } => {
                if !self.files.contains(link) {
                    return Err(refused(name, Refusal::HardLink));
                }
            }
            Record::Deleted { .. } => {
                if !self.changes {
                    return Err(damaged());
                }
            }
            Record::Link { .. } | Record::Node { .. } => {}
            Record::End => {
                if self.last.len() > 1 {
                    return Err(damaged());
                }
                self.has_ended = true;
            }
        }
        Ok(())
    }

    /// How many entries there were.
    pub fn entries(&self) -> u64 {
        self.entries
    }
}
