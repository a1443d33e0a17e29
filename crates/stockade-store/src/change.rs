//! The differences between two views of a place.

use std::collections::BTreeSet;

use crate::StoreError;
use crate::view::{EntryKind, TreeEntry, View, same_content};

/// What happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It is gone.
    Deleted,
    /// Its content, target or mode differs.
    Modified,
    /// It is another kind of entry.
    Replaced,
}

impl ChangeKind {
    /// The kind as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            ChangeKind::Added => "added",
            ChangeKind::Deleted => "deleted",
            ChangeKind::Modified => "modified",
            ChangeKind::Replaced => "replaced",
        }
    }
}

/// A difference.
#[derive(Clone, Debug)]
pub struct Change {
    /// The path below the place.
    pub path: Vec<u8>,
    /// What it was.
    pub old: Option<TreeEntry>,
    /// What it is.
    pub new: Option<TreeEntry>,
}

impl Change {
    /// What happened.
    pub fn kind(&self) -> ChangeKind {
        match (&self.old, &self.new) {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Deleted,
            (Some(old), Some(new)) if is_alike(&old.kind, &new.kind) => ChangeKind::Modified,
            _ => ChangeKind::Replaced,
        }
    }
}

/// Everything that differs, by path. Both views have the same base.
pub fn changes(old: &View<'_>, new: &View<'_>) -> Result<Vec<Change>, StoreError> {
    let mut paths: BTreeSet<Vec<u8>> = old.paths()?.into_iter().collect();
    paths.extend(new.paths()?);
    let mut changes = Vec::new();
    for path in paths {
        let (before, after) = (old.get(&path)?, new.get(&path)?);
        if !is_same((old, before.as_ref()), (new, after.as_ref()))? {
            changes.push(Change { path, old: before, new: after });
        }
    }
    Ok(changes)
}

/// Whether two entries are the same, apart from times and extended attributes.
pub(crate) fn is_same(
    (old, a): (&View<'_>, Option<&TreeEntry>),
    (new, b): (&View<'_>, Option<&TreeEntry>),
) -> Result<bool, StoreError> {
    let (a, b) = match (a, b) {
        (None, None) => return Ok(true),
        (Some(a), Some(b)) => (a, b),
        _ => return Ok(false),
    };
    // Directories inherit a set-group-ID bit; on a file it and set-user-ID matter.
    let is_file = matches!((&a.kind, &b.kind), (EntryKind::File(_), EntryKind::File(_)));
    let bits = if is_file { 0o6777 } else { 0o777 };
    let is_mode = a.mode & bits == b.mode & bits;
    match (&a.kind, &b.kind) {
        (EntryKind::Directory { .. }, EntryKind::Directory { .. }) => Ok(is_mode),
        (EntryKind::Link(a), EntryKind::Link(b)) => Ok(a == b),
        (EntryKind::Special(a), EntryKind::Special(b)) => Ok(a == b && is_mode),
        (EntryKind::File(a), EntryKind::File(b)) => {
            Ok(is_mode && same_content((old, a), (new, b))?)
        }
        _ => Ok(false),
    }
}

fn is_alike(one: &EntryKind, other: &EntryKind) -> bool {
    std::mem::discriminant(one) == std::mem::discriminant(other)
}
