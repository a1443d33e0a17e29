//! Brings changes of a sandbox to a directory of the host.
//!
//! ```text
//! changes ── judge each: applied, same, flagged, refused, conflict ──▶ proposals
//! applied ── removals, deepest first ── then the rest, each in one rename
//! ```
//! Everything is hostile: the names, the targets of links, the sizes, and what happens to the
//! directory meanwhile. The host's files are reached only by single names in directories that were
//! opened beneath the target without a link, and no file is ever opened for writing by a name that
//! existed before.

mod judge;
mod write;

use std::collections::BTreeMap;

use rustix::fs::{Mode, fchmod, fstat};
use rustix::io::Errno;

use crate::base::HostBase;
use crate::change::Change;
use crate::view::View;
use crate::{Hash, StoreError};
use judge::{Judge, is_below, is_directory, names_of};
use write::{Failure, create, remove, sweep};

/// What to apply.
pub struct ApplyRequest<'r> {
    /// The host directory.
    pub target: &'r HostBase,
    /// Whether it is the directory below the sandbox's overlay.
    pub is_base: bool,
    /// When the sandbox was built, in milliseconds since 1970.
    pub started_ms: u64,
    /// Only these paths and what is below them; all if empty.
    pub only: &'r [Vec<u8>],
    /// Flagged paths that the caller accepts, with what is below them.
    pub accepted: &'r [Vec<u8>],
    /// What earlier calls applied, by path: such a file is no conflict.
    pub applied: &'r BTreeMap<String, Hash>,
    /// Only judge.
    pub dry_run: bool,
}

/// What becomes of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is applied.
    Apply,
    /// The host has it already.
    Same,
    /// A tool of the host would execute it; it needs consent.
    Flagged(String),
    /// It is never applied.
    Refused(Refused),
    /// The host changed too.
    Conflict(String),
}

/// Why a change is never applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A device, FIFO or socket.
    #[error("it is a FIFO, a socket or a device")]
    Special,
    /// A program that would run as another user.
    #[error("it has a set-user-ID or set-group-ID bit; remove it inside, with chmod ug-s")]
    SetId,
    /// A link that leads out.
    #[error("the link leads out of the directory")]
    Link,
    /// A link of the host is on the way.
    #[error("a link of the host is on its path")]
    Through,
    /// Two names that some file systems do not distinguish.
    #[error("its name differs from {0:?} only by case or Unicode form")]
    Twin(String),
    /// More than fits.
    #[error("it is larger than the free space of the file system")]
    TooLarge,
    /// The kernel refused.
    #[error("{0}")]
    Failed(String),
}

/// A change with its verdict.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The change.
    pub change: Change,
    /// What becomes of it.
    pub verdict: Verdict,
}

/// What was applied.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    /// Every selected change.
    pub proposals: Vec<Proposal>,
    /// The content of applied files by path, for the next call.
    pub applied: BTreeMap<String, Hash>,
}

/// Judges the selected changes, and applies those that may be.
pub fn apply(
    old: &View<'_>,
    new: &View<'_>,
    changes: Vec<Change>,
    request: &ApplyRequest<'_>,
) -> Result<Applied, StoreError> {
    let is_selected = |change: &Change| {
        request.only.is_empty() || request.only.iter().any(|only| is_below(&change.path, only))
    };
    let judge = Judge { old, new, request, names: names_of(&changes) };
    let mut proposals = Vec::new();
    for change in changes.into_iter().filter(is_selected) {
        let verdict = judge.verdict(&change)?;
        proposals.push(Proposal { change, verdict });
    }
    let mut applied = Applied { applied: request.applied.clone(), proposals };
    if request.dry_run {
        return Ok(applied);
    }
    sweep(request.target, &applied.proposals);
    let removals = |proposal: &Proposal| {
        let makes_room = match (&proposal.change.old, &proposal.change.new) {
            (_, None) => true,
            // A directory that becomes something else is empty by then.
            (Some(old), Some(new)) => is_directory(old) && !is_directory(new),
            (None, Some(_)) => false,
        };
        proposal.verdict == Verdict::Apply && makes_room
    };
    // Deepest first: the paths are sorted.
    for proposal in applied.proposals.iter_mut().rev().filter(|it| removals(it)) {
        match remove(request.target, &proposal.change) {
            Ok(()) => {
                let name = String::from_utf8_lossy(&proposal.change.path);
                applied.applied.remove(&*name);
            }
            Err(errno) => proposal.verdict = failed(errno),
        }
    }
    let mut modes = Vec::new();
    for proposal in &mut applied.proposals {
        let Change { path, new: Some(entry), .. } = &proposal.change else { continue };
        if proposal.verdict != Verdict::Apply {
            continue;
        }
        match create(request.target, new, path, entry) {
            Ok(hash) => {
                if is_directory(entry) {
                    modes.push((path.clone(), entry.mode));
                }
                let name = String::from_utf8_lossy(path).into_owned();
                hash.and_then(|hash| applied.applied.insert(name, hash));
            }
            Err(Failure::Host(errno)) => proposal.verdict = failed(errno),
            Err(Failure::Store(error)) => return Err(error),
        }
    }
    // Last: a directory may end up without the right to write into it.
    for (path, mode) in modes.into_iter().rev() {
        if let Ok(directory) = request.target.parent(&path) {
            // What the directory got from those above it on the host stays.
            let special = fstat(&directory).map_or(0, |found| found.st_mode & 0o7000);
            // Fails if the directory belongs to another user; it keeps its mode then.
            let _ = fchmod(&directory, Mode::from_raw_mode(special | mode & 0o777));
        }
    }
    Ok(applied)
}

fn failed(errno: Errno) -> Verdict {
    Verdict::Refused(match errno {
        Errno::LOOP | Errno::XDEV => Refused::Through,
        errno => Refused::Failed(std::io::Error::from(errno).to_string()),
    })
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
