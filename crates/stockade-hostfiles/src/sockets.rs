//! Searches directories that are shown without an overlay for Unix sockets, if the kernel cannot
//! refuse connections to them, for FIFOs, and for second hard links of hidden or read-only files.

use std::collections::HashSet;
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::fs::{DirEntryExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Access, access};
use stockade_launcher::TreeKind;
use stockade_policy::Policy;

use crate::covered::{is_direct, shown_at};
use crate::unlisted::refuse_unlisted;
use crate::{HostFileError, Mode, Mounts, Shown};

/// The limits of a search; a larger directory is refused.
#[derive(Clone, Copy)]
struct Bounds {
    entries: usize,
    time: Duration,
}

const BOUNDS: Bounds = Bounds { entries: 2_000_000, time: Duration::from_secs(10) };

/// Whether a directory that is shown directly must contain no Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketSearch {
    /// The wall itself refuses connections to host sockets.
    NotNeeded,
    /// The wall cannot refuse such connections.
    Needed,
    /// Needed, by a wall that shows every directory without an overlay: its report lists read-only
    /// directories too.
    Reported,
}

/// Searches each directory that is shown directly.
pub fn refuse_uncoverable(
    policy: &Policy,
    shown: &[Shown],
    search: SocketSearch,
    mounts: &Mounts,
    is_separable: &dyn Fn(&Path) -> bool,
) -> Result<(), HostFileError> {
    let sockets = search != SocketSearch::NotNeeded;
    let direct = |it: &&Shown| it.kind == TreeKind::Directory && is_direct(it, is_separable);
    for tree in shown.iter().filter(direct) {
        if sockets && tree.mode == Mode::Read {
            if policy.files_exact.value {
                return Err(inexact(&tree.host));
            }
            if search == SocketSearch::Needed {
                refuse_unlisted(tree, shown, mounts)?;
            }
        }
        let covered = covered(tree, policy, shown)?;
        let covered: Vec<&Path> = covered.iter().map(PathBuf::as_path).collect();
        let mut search = Search::new(&tree.host, sockets, BOUNDS);
        search.fifos = tree.mode == Mode::Read;
        if tree.mode == Mode::Write {
            for place in &covered {
                search.note_second_names(place)?;
            }
        }
        search.refuse(&covered)?;
    }
    Ok(())
}

/// Searches a directory of the system or of an interpreter that is shown directly.
pub fn refuse_system_sockets(
    directory: &Path,
    policy: &Policy,
    search: SocketSearch,
) -> Result<(), HostFileError> {
    let sockets = search != SocketSearch::NotNeeded;
    if sockets && policy.files_exact.value {
        return Err(inexact(directory));
    }
    let mut search = Search::new(directory, sockets, BOUNDS);
    search.fifos = true;
    search.refuse(&[])
}

/// The host paths of directories that are hidden, read-only or overlaid at their place in this
/// tree. Another tree may show the same host path uncovered.
fn covered(tree: &Shown, policy: &Policy, shown: &[Shown]) -> Result<Vec<PathBuf>, HostFileError> {
    let hidden = policy.hide.iter().map(|hide| Path::new(hide.value.as_str()));
    let read = shown.iter().filter(|it| it.mode != Mode::Write && it.kind == TreeKind::Directory);
    let mut covered = Vec::new();
    for place in hidden.chain(read.map(|it| it.guest.as_path())) {
        if let Some((mount, host)) = shown_at(place, shown)
            && std::ptr::eq(mount, tree)
            && existing(&host)?.is_some_and(|data| data.is_dir())
        {
            covered.push(host);
        }
    }
    Ok(covered)
}

/// What a host path is; nothing if it does not exist. A path that cannot be inspected is refused:
/// the program may own a directory on the way and open it again.
pub(crate) fn existing(path: &Path) -> Result<Option<Metadata>, HostFileError> {
    match fs::symlink_metadata(path) {
        Ok(data) => Ok(Some(data)),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(None)
        }
        Err(error) => Err(unknown(path, &error.to_string())),
    }
}

/// A search of one tree.
struct Search<'t> {
    tree: &'t Path,
    sockets: bool,
    /// A read-only mount does not stop a write to a FIFO.
    fifos: bool,
    /// Device and inode of covered files with more than one hard link.
    linked: HashSet<(u64, u64)>,
    left: usize,
    end: Instant,
}

impl<'t> Search<'t> {
    fn new(tree: &'t Path, sockets: bool, bounds: Bounds) -> Search<'t> {
        let end = Instant::now() + bounds.time;
        Search { tree, sockets, fifos: false, linked: HashSet::new(), left: bounds.entries, end }
    }

    fn note_second_names(&mut self, covered: &Path) -> Result<(), HostFileError> {
        let mut found = HashSet::new();
        self.walk(covered, &[], |entry| {
            if let Ok(data) = entry.metadata()
                && data.is_file()
                && data.nlink() > 1
            {
                found.insert((data.dev(), data.ino()));
            }
            Ok(())
        })?;
        self.linked.extend(found);
        Ok(())
    }

    /// Refuses the tree if the search finds something outside the covered paths.
    fn refuse(mut self, covered: &[&Path]) -> Result<(), HostFileError> {
        let (sockets, fifos) = (self.sockets, self.fifos);
        let linked = std::mem::take(&mut self.linked);
        if !sockets && !fifos && linked.is_empty() {
            return Ok(());
        }
        let inodes: HashSet<u64> = linked.iter().map(|(_, inode)| *inode).collect();
        let is_second_name = |entry: &DirEntry| {
            let data = || entry.metadata().ok();
            inodes.contains(&entry.ino())
                && data().is_none_or(|data| linked.contains(&(data.dev(), data.ino())))
        };
        self.walk(self.tree, covered, |entry| {
            let kind = entry.file_type().ok();
            if sockets && kind.is_some_and(|kind| kind.is_socket()) {
                return Err(socket(&entry.path()));
            }
            if fifos && kind.is_some_and(|kind| kind.is_fifo()) {
                return Err(fifo(&entry.path()));
            }
            match is_second_name(entry) {
                true => Err(second_name(&entry.path())),
                false => Ok(()),
            }
        })
    }

    fn walk(
        &mut self,
        top: &Path,
        covered: &[&Path],
        mut look: impl FnMut(&DirEntry) -> Result<(), HostFileError>,
    ) -> Result<(), HostFileError> {
        let mut ahead = vec![top.to_owned()];
        while let Some(directory) = ahead.pop() {
            if covered.contains(&&*directory) {
                continue;
            }
            let entries = match fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) if is_out_of_reach(&directory, &error) => continue,
                Err(error) => return Err(unknown(&directory, &error.to_string())),
            };
            for entry in entries {
                let entry = entry.map_err(|error| unknown(&directory, &error.to_string()))?;
                self.left = match self.left.checked_sub(1) {
                    Some(left) if left % 1024 != 0 || Instant::now() < self.end => left,
                    _ => return Err(too_much(self.tree)),
                };
                look(&entry)?;
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    ahead.push(entry.path());
                }
            }
        }
        Ok(())
    }
}

/// Whether programs inside cannot reach the directory either: it is gone, or the caller may not
/// enter it and does not own it. An owner can change the mode.
fn is_out_of_reach(directory: &Path, error: &io::Error) -> bool {
    let is_of_another_user = || {
        let caller = rustix::process::geteuid().as_raw();
        fs::symlink_metadata(directory).is_ok_and(|data| data.uid() != caller)
    };
    error.kind() == io::ErrorKind::NotFound
        || (error.kind() == io::ErrorKind::PermissionDenied
            && access(directory, Access::EXEC_OK).is_err()
            && is_of_another_user())
}

fn socket(path: &Path) -> HostFileError {
    let reason = "it is a Unix socket, and a program inside could connect to whatever serves it; \
                  only Landlock 9 (Linux 7.1) refuses that";
    let remedy = "move or remove the socket, hide the directory that it is in, or show the directory \
                  with the mode overlay";
    HostFileError::path(path, reason, remedy)
}

fn fifo(path: &Path) -> HostFileError {
    let reason = "it is a FIFO, and a program inside could write to the process that reads it, \
                  although its directory is read-only";
    let remedy = "move or remove it, or hide the directory that it is in";
    HostFileError::path(path, reason, remedy)
}

fn second_name(path: &Path) -> HostFileError {
    let reason = "it is a second name, a hard link, of a file that the policy hides or protects";
    HostFileError::path(path, reason, "remove it, or replace it by a copy")
}

fn inexact(directory: &Path) -> HostFileError {
    let reason = "something is mounted below it, or it is on a file system that cannot be layered, so \
                  a socket that a host process makes there could be connected to";
    let remedy = "remove filesystem.exact, show a directory below which nothing is mounted, or use \
                  Linux 7.1 or later";
    HostFileError::path(directory, reason, remedy)
}

fn unknown(directory: &Path, error: &str) -> HostFileError {
    let reason = format!("it cannot be searched: {error}");
    HostFileError::path(directory, reason, "correct its permissions, or show another directory")
}

fn too_much(tree: &Path) -> HostFileError {
    let reason = format!(
        "it holds too much to be searched for Unix sockets: more than {} entries or {} seconds",
        BOUNDS.entries,
        BOUNDS.time.as_secs()
    );
    let remedy = "show a smaller directory or the mode overlay, or use Linux 7.1 or later";
    HostFileError::path(tree, reason, remedy)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn refused(tree: &Path, covered: &[&Path], bounds: Bounds) -> Option<(PathBuf, String)> {
        let mut search = Search::new(tree, true, bounds);
        let noted = covered.iter().try_for_each(|place| search.note_second_names(place));
        match noted.and_then(|()| search.refuse(covered)) {
            Ok(()) => None,
            Err(HostFileError::Path { path, reason, .. }) => Some((path, reason)),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn socket_is_found_at_any_depth_outside_covered_directories() {
        let scratch = tempfile::tempdir().unwrap();
        let deep = scratch.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        assert_eq!(refused(scratch.path(), &[], BOUNDS), None);
        let _socket = UnixListener::bind(deep.join("socket")).unwrap();
        let found = refused(scratch.path(), &[], BOUNDS).unwrap();
        assert_eq!(found.0, deep.join("socket"));
        assert_eq!(refused(scratch.path(), &[&deep], BOUNDS), None);
    }

    #[test]
    fn socket_is_refused_only_if_the_kernel_cannot_refuse_it() {
        let scratch = tempfile::tempdir().unwrap();
        let host = scratch.path().canonicalize().unwrap();
        let _socket = UnixListener::bind(host.join("socket")).unwrap();
        let policy = Policy::parse_str("p", "{}", &host).unwrap();
        let (guest, kind) = (PathBuf::from("/data"), TreeKind::Directory);
        let shown = [Shown { host, guest, kind, mode: Mode::Write }];
        let mounts = Mounts::default();
        let is_refused =
            |search| refuse_uncoverable(&policy, &shown, search, &mounts, &|_| false).is_err();
        let searches = [SocketSearch::Needed, SocketSearch::NotNeeded];
        assert_eq!(searches.map(is_refused), [true, false]);
    }

    #[test]
    fn fifo_is_refused_where_the_directory_is_read_only() {
        let scratch = tempfile::tempdir().unwrap();
        let fifo = scratch.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        assert_eq!(refused(scratch.path(), &[], BOUNDS), None);
        let mut search = Search::new(scratch.path(), false, BOUNDS);
        search.fifos = true;
        let Err(HostFileError::Path { path, .. }) = search.refuse(&[]) else {
            panic!("the search found no FIFO");
        };
        assert_eq!(path, fifo);
    }

    #[test]
    fn second_hard_link_of_a_covered_file_is_found() {
        let scratch = tempfile::tempdir().unwrap();
        let kept = scratch.path().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("key"), "x").unwrap();
        assert_eq!(refused(scratch.path(), &[&kept], BOUNDS), None);
        fs::hard_link(kept.join("key"), scratch.path().join("again")).unwrap();
        let found = refused(scratch.path(), &[&kept], BOUNDS).unwrap();
        assert_eq!(found.0, scratch.path().join("again"));
    }

    #[test]
    fn tree_over_the_bounds_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            fs::write(scratch.path().join(name), "").unwrap();
        }
        let few = Bounds { entries: 2, ..BOUNDS };
        assert!(refused(scratch.path(), &[], few).unwrap().1.contains("too much"));
        assert_eq!(refused(scratch.path(), &[], Bounds { entries: 3, ..BOUNDS }), None);
    }
}
