//! Judges what becomes of a change.

use std::collections::HashMap;
use std::os::fd::AsFd;

use rustix::fs::{Dir, Stat, fstatvfs};
use rustix::io::Errno;

use super::{ApplyRequest, Refused, Verdict, failed};
use crate::base::{look, split};
use crate::change::{Change, is_same};
use crate::error::file;
use crate::flags::{flag, fold};
use crate::view::{Content, EntryKind, TreeEntry, View};
use crate::{Hash, StoreError};

/// Whether a path is another one or below it.
pub(super) fn is_below(path: &[u8], above: &[u8]) -> bool {
    path == above || path.strip_prefix(above).is_some_and(|rest| rest.starts_with(b"/"))
}

pub(super) fn is_directory(entry: &TreeEntry) -> bool {
    matches!(entry.kind, EntryKind::Directory { .. })
}

/// Whether an entry would bring set-id bits to the host. Those that a directory of the host has are
/// inherited by what is in it and not new.
fn has_new_set_id(change: &Change, entry: &TreeEntry) -> bool {
    let bits = entry.mode & 0o6000;
    match (&entry.kind, &change.old) {
        (EntryKind::Link(_), _) => false,
        (EntryKind::Directory { .. }, Some(old)) => bits & !old.mode != 0,
        _ => bits != 0,
    }
}

/// The names that will be there, by directory and folded name.
pub(super) fn names_of(changes: &[Change]) -> HashMap<(Vec<u8>, String), Vec<u8>> {
    let mut names = HashMap::new();
    for change in changes.iter().filter(|change| change.new.is_some()) {
        let (above, name) = split(&change.path);
        names.entry((above.to_vec(), fold(name))).or_insert_with(|| name.to_vec());
    }
    names
}

pub(super) struct Judge<'j> {
    pub(super) old: &'j View<'j>,
    pub(super) new: &'j View<'j>,
    pub(super) request: &'j ApplyRequest<'j>,
    pub(super) names: HashMap<(Vec<u8>, String), Vec<u8>>,
}

impl Judge<'_> {
    pub(super) fn verdict(&self, change: &Change) -> Result<Verdict, StoreError> {
        if let Some(entry) = &change.new
            && let Some(refused) = self.refused(change, entry)?
        {
            return Ok(Verdict::Refused(refused));
        }
        let host = match self.host(&change.path) {
            Ok(host) => host,
            Err(Errno::LOOP | Errno::XDEV | Errno::NOTDIR) => {
                return Ok(Verdict::Refused(Refused::Through));
            }
            Err(errno) => return Ok(failed(errno)),
        };
        if let Some(verdict) = self.conflict(change, host.as_ref())? {
            return Ok(verdict);
        }
        if let Some(reason) = self.flagged(change)
            && !self.request.accepted.iter().any(|path| is_below(&change.path, path))
        {
            return Ok(Verdict::Flagged(reason.to_owned()));
        }
        Ok(Verdict::Apply)
    }

    /// What the host has; `None` also if the directory above is missing.
    fn host(&self, path: &[u8]) -> Result<Option<(TreeEntry, Stat)>, Errno> {
        let (above, name) = split(path);
        match self.request.target.parent(above) {
            Err(Errno::NOENT) => Ok(None),
            // A file that will become a directory.
            Err(Errno::NOTDIR) if self.is_new_directory(above) => Ok(None),
            parent => look(parent?.as_fd(), name),
        }
    }

    fn is_new_directory(&self, path: &[u8]) -> bool {
        self.new.get(path).is_ok_and(|entry| entry.is_some_and(|entry| is_directory(&entry)))
    }

    fn refused(&self, change: &Change, entry: &TreeEntry) -> Result<Option<Refused>, StoreError> {
        let path = change.path.as_slice();
        if has_new_set_id(change, entry) {
            return Ok(Some(Refused::SetId));
        }
        let (above, name) = split(path);
        match &entry.kind {
            EntryKind::Special(_) | EntryKind::Other => return Ok(Some(Refused::Special)),
            EntryKind::Link(target) => {
                let depth = path.iter().filter(|byte| **byte == b'/').count();
                if !stockade_archive::stays(target, depth) {
                    return Ok(Some(Refused::Link));
                }
            }
            EntryKind::File(content) => {
                let target = self.request.target;
                let free = fstatvfs(target.directory());
                let free = free.map_err(|errno| file("measure", target.path())(errno.into()))?;
                if content.size() > free.f_bavail.saturating_mul(free.f_frsize) {
                    return Ok(Some(Refused::TooLarge));
                }
            }
            EntryKind::Directory { .. } => {}
        }
        let folded = fold(name);
        let twin = self.names.get(&(above.to_vec(), folded.clone())).filter(|it| *it != name);
        let twin = twin.cloned().or_else(|| self.twin_of_host(above, name, &folded));
        Ok(twin.map(|twin| Refused::Twin(String::from_utf8_lossy(&twin).into_owned())))
    }

    fn twin_of_host(&self, above: &[u8], name: &[u8], folded: &str) -> Option<Vec<u8>> {
        let directory = self.request.target.parent(above).ok()?;
        let mut entries = Dir::read_from(&directory).ok()?;
        while let Some(Ok(entry)) = entries.read() {
            let other = entry.file_name().to_bytes();
            if other != name && !matches!(other, b"." | b"..") && fold(other) == folded {
                return Some(other.to_vec());
            }
        }
        None
    }

    fn conflict(
        &self,
        change: &Change,
        host: Option<&(TreeEntry, Stat)>,
    ) -> Result<Option<Verdict>, StoreError> {
        let Some((entry, found)) = host else {
            let name = String::from_utf8_lossy(&change.path);
            return Ok(match &change.new {
                None => Some(Verdict::Same),
                // Another directory may have been emptied to apply everything to it again.
                Some(_) if self.request.is_base && self.request.applied.contains_key(&*name) => {
                    let reason = "the host removed it after it was applied";
                    Some(Verdict::Conflict(reason.to_owned()))
                }
                Some(_) => None,
            });
        };
        let on_host = View::empty(Some(self.request.target));
        if is_same((&on_host, Some(entry)), (self.new, change.new.as_ref()))? {
            return Ok(Some(Verdict::Same));
        }
        if matches!(entry.kind, EntryKind::Special(_) | EntryKind::Other) {
            // Programs of the host meet there; a file of the sandbox would end that.
            let reason = "the host has a FIFO, a socket or a device there";
            return Ok(Some(Verdict::Conflict(reason.to_owned())));
        }
        let is_both_directory =
            is_directory(entry) && change.new.as_ref().is_some_and(is_directory);
        if is_both_directory || self.was_applied(&change.path, entry)? {
            return Ok(None);
        }
        let changed_ms =
            found.st_ctime.saturating_mul(1000) + found.st_ctime_nsec as i64 / 1_000_000;
        let is_later = u64::try_from(changed_ms).unwrap_or(0) > self.request.started_ms;
        if self.request.is_base && is_later && !is_directory(entry) {
            let reason = "the host changed it after the session started";
            return Ok(Some(Verdict::Conflict(reason.to_owned())));
        }
        let is_as_before = is_same((&on_host, Some(entry)), (self.old, change.old.as_ref()))?;
        if !is_as_before && !is_directory(entry) {
            let reason = "the host has something else there";
            return Ok(Some(Verdict::Conflict(reason.to_owned())));
        }
        Ok(None)
    }

    fn was_applied(&self, path: &[u8], entry: &TreeEntry) -> Result<bool, StoreError> {
        let name = String::from_utf8_lossy(path).into_owned();
        match (&entry.kind, self.request.applied.get(&name)) {
            (EntryKind::File(content), Some(hash)) => {
                let on_host = View::empty(Some(self.request.target));
                Ok(hash_of(&on_host, content)? == *hash)
            }
            _ => Ok(false),
        }
    }

    fn flagged(&self, change: &Change) -> Option<&'static str> {
        // A removal is judged by what it removes.
        let entry = change.new.as_ref().or(change.old.as_ref())?;
        if is_directory(entry) && change.new.is_some() && !replaces_a_file(change) {
            // Its entries are flagged themselves.
            return None;
        }
        if let (EntryKind::Link(target), true) = (&entry.kind, change.new.is_some()) {
            let (above, _) = split(&change.path);
            // Writing through the link later would reach what is flagged there.
            if let Some(reason) = flag(&joined(above, target)) {
                return Some(reason);
            }
        }
        flag(&change.path)
    }
}

/// Whether a file or a link of the host would go.
fn replaces_a_file(change: &Change) -> bool {
    change.old.as_ref().is_some_and(|old| !is_directory(old))
}

/// A relative target from a directory, without its `..`.
fn joined(above: &[u8], target: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> =
        above.split(|byte| *byte == b'/').filter(|it| !it.is_empty()).collect();
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.join(&b'/')
}

pub(super) fn hash_of(view: &View<'_>, content: &Content) -> Result<Hash, StoreError> {
    const PIECE: u64 = 1 << 20;
    let mut hasher = blake3::Hasher::new();
    let (mut offset, size) = (0, content.size());
    while offset < size {
        let length = usize::try_from(PIECE.min(size - offset)).expect("a piece is short");
        let mut piece = vec![0; length];
        view.read(content, offset, &mut piece)?;
        hasher.update(&piece);
        offset += length as u64;
    }
    Ok(Hash(*hasher.finalize().as_bytes()))
}
