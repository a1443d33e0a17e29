//! Checks what is hidden or read-only below a writable directory, or in one that is shown without
//! an overlay. The kernel drops a mount when a host process replaces or removes its mount point,
//! which limits what a mount can cover:
//!
//! ```text
//! hidden or read-only        below overlay, or read-only    below what is shown directly
//!   directory                works                          works; directories above are pinned
//!   file                     works                          refused: every save replaces it
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use stockade_launcher::TreeKind;
use stockade_policy::Policy;
use stockade_sys::MountTable;

use crate::sockets::existing;
use crate::{HostFileError, Mode, Shown};

const OUTSIDE: &str =
    "keep it outside of what can be written, or show that read-only or with the mode overlay";

/// Refuses what no mount can protect, and returns the directories to pin. Without the pin a program
/// could move such a directory, with what it hides or protects, and find the content uncovered in
/// its next run.
///
/// `is_separable` returns whether a directory can be shown through an overlay of the sandbox.
pub fn pinned_directories(
    policy: &Policy,
    shown: &[Shown],
    is_separable: &dyn Fn(&Path) -> bool,
) -> Result<Vec<PathBuf>, HostFileError> {
    let hidden: Vec<&Path> =
        policy.hide.iter().map(|hide| Path::new(hide.value.as_str())).collect();
    for place in &hidden {
        if let Some((mount, host)) = shown_at(place, shown) {
            check_hidden(&host, mount, is_direct(mount, is_separable))?;
            refuse_hidden_alias(&host, shown, is_separable)?;
        }
    }
    refuse_read_below_writable(shown, |guest, host| is_covered(shown, guest, host))?;
    check_read_below_writable(shown)?;
    let places = hidden.into_iter().chain(shown.iter().map(|it| it.guest.as_path()));
    Ok(pinned(places, shown))
}

/// Refuses read-only host paths that are also writable at another place inside, unless `is_covered`
/// returns that the host path is read-only at that place too.
pub fn refuse_read_below_writable(
    shown: &[Shown],
    is_covered: impl Fn(&Path, &Path) -> bool,
) -> Result<(), HostFileError> {
    for_each_below(shown, |read, write, guest| match is_covered(&guest, &read.host) {
        true => Ok(()),
        false => {
            let reason = format!(
                "it shall not be changed, and {} shows it writable at {}",
                write.host.display(),
                guest.display()
            );
            Err(HostFileError::path(&read.host, reason, OUTSIDE))
        }
    })
}

/// Whether a mount keeps a host path read-only at a place inside.
fn is_covered(shown: &[Shown], guest: &Path, host: &Path) -> bool {
    shown.iter().any(|it| it.mode != Mode::Write && it.guest == guest && it.host == host)
}

/// Refuses a read-only single file below a writable directory.
fn check_read_below_writable(shown: &[Shown]) -> Result<(), HostFileError> {
    for_each_below(shown, |read, write, _| match read.kind {
        TreeKind::Directory => Ok(()),
        TreeKind::File => {
            let reason = format!(
                "it shall not be changed, and when a host process saves it again it can be, because \
                 {} can be written from inside",
                write.host.display()
            );
            Err(HostFileError::path(&read.host, reason, OUTSIDE))
        }
    })
}

/// Calls `check` with each read-only path, each writable path above it on the host, and the place
/// inside where the writable path shows it.
fn for_each_below(
    shown: &[Shown],
    check: impl Fn(&Shown, &Shown, PathBuf) -> Result<(), HostFileError>,
) -> Result<(), HostFileError> {
    let (writable, others): (Vec<&Shown>, Vec<&Shown>) =
        shown.iter().partition(|it| it.mode == Mode::Write);
    if writable.is_empty() || others.is_empty() {
        return Ok(());
    }
    let mounts = MountTable::look().map_err(|source| HostFileError::Mounts { source })?;
    for read in others {
        for alias in mounts.aliases(&read.host) {
            for write in &writable {
                if let Ok(below) = alias.strip_prefix(&write.host) {
                    // Removes the trailing slash that joining an empty path leaves.
                    check(read, write, write.guest.join(below).components().collect())?;
                }
            }
        }
    }
    Ok(())
}

/// Whether the sandbox sees the host's own directory, not an overlay over it.
pub(crate) fn is_direct(shown: &Shown, is_separable: &dyn Fn(&Path) -> bool) -> bool {
    let directory = match shown.kind {
        TreeKind::Directory => Some(shown.host.as_path()),
        TreeKind::File => shown.host.parent(),
    };
    match shown.mode {
        Mode::Write => true,
        Mode::Overlay => false,
        Mode::Read => !directory.is_some_and(is_separable),
    }
}

/// The innermost mount above a place inside, and the host path of that place.
pub(crate) fn shown_at<'s>(place: &Path, shown: &'s [Shown]) -> Option<(&'s Shown, PathBuf)> {
    let above = shown.iter().filter(|it| place != it.guest && place.starts_with(&it.guest));
    let mount = above.max_by_key(|it| it.guest.components().count())?;
    Some((mount, mount.host.join(place.strip_prefix(&mount.guest).ok()?)))
}

/// Refuses a hidden path that a bind mount of the host shows a second time in a directory that is
/// shown directly.
fn refuse_hidden_alias(
    host: &Path,
    shown: &[Shown],
    is_separable: &dyn Fn(&Path) -> bool,
) -> Result<(), HostFileError> {
    let direct: Vec<&Shown> = shown.iter().filter(|it| is_direct(it, is_separable)).collect();
    if direct.is_empty() {
        return Ok(());
    }
    let mounts = MountTable::look().map_err(|source| HostFileError::Mounts { source })?;
    for alias in mounts.aliases(host) {
        if alias != host && direct.iter().any(|it| alias.starts_with(&it.host)) {
            let reason = format!("it cannot be hidden: {} shows it too", alias.display());
            return Err(HostFileError::path(
                host,
                reason,
                "unmount the other place, or show a directory that does not hold it",
            ));
        }
    }
    Ok(())
}

fn check_hidden(host: &Path, mount: &Shown, direct: bool) -> Result<(), HostFileError> {
    // A missing path needs no cover.
    let Some(found) = existing(host)? else { return Ok(()) };
    let real = fs::canonicalize(host);
    if found.is_symlink() || real.as_ref().is_ok_and(|real| real != host) {
        let remedy = match real {
            Ok(real) => format!("hide its real path, {}", real.display()),
            Err(_) => "remove the link".to_owned(),
        };
        let reason = "it cannot be hidden: a part of the path is a symbolic link";
        return Err(HostFileError::path(host, reason, remedy));
    }
    if found.is_dir() {
        return Ok(());
    }
    if found.is_file() && found.nlink() > 1 {
        let reason = "it cannot be hidden: the file has a second name, a hard link";
        return Err(HostFileError::path(
            host,
            reason,
            "remove the other name, or replace the file by a copy",
        ));
    }
    if direct {
        let reason = match mount.mode {
            Mode::Write => "it can be written from inside",
            Mode::Read | Mode::Overlay => {
                "something is mounted below it, or on another file system"
            }
        };
        let reason = format!(
            "it cannot stay hidden: a host process that saves the file again uncovers it, because {} \
             is shown directly: {reason}",
            mount.host.display()
        );
        let remedy = "hide the directory that it is in, show that directory with the mode overlay, \
                      or keep the file elsewhere";
        return Err(HostFileError::path(host, reason, remedy));
    }
    Ok(())
}

/// The directories between places inside and the writable mounts above them, outer ones first.
fn pinned<'p>(places: impl Iterator<Item = &'p Path>, shown: &[Shown]) -> Vec<PathBuf> {
    let mut pinned = BTreeSet::new();
    for place in places {
        if let Some((mount, _)) = shown_at(place, shown)
            && mount.mode == Mode::Write
        {
            let between = place.ancestors().skip(1).take_while(|above| *above != mount.guest);
            pinned.extend(between.map(Path::to_owned));
        }
    }
    pinned.into_iter().collect()
}

#[cfg(test)]
#[path = "covered_tests.rs"]
mod tests;
