//! Host trees with other file owners, for an engine that starts containers.
//!
//! ```text
//! Lending on standard input ── clone and map trees ──▶ attach in the engine's mount namespace
//!     ── "ready" on standard output ──▶ standard input ends ──▶ detached and removed
//! ```
//! An engine takes only paths, so each tree is attached at one, below a directory that root alone
//! may enter. A container that has started has mounts of its own, so the trees are needed only until
//! then. The process ends with its standard input, so also when the caller is killed. What a killed
//! process leaves is removed by the next.
//!
//! The process enters the engine's namespace with all rights of root. An engine with a user
//! namespace of its own is refused, because any user can make one and mount anything in it.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FlockOperation, Mode, OFlags, flock, fstat, mkdirat, openat, statat, unlinkat,
};
use rustix::mount::{MoveMountFlags, UnmountFlags};
use rustix::process::{fchdir, geteuid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::{Deserialize, Serialize};

use crate::inside::take_tree;
use crate::owners::make;
use crate::{Attributes, IdMap, TreeKind};

/// Where trees are attached.
const PLACES: &str = "/run/stockade-mounts";
/// The length of the name of a request.
const NAME_BYTES: usize = 16;
/// The most bytes of a request.
const MOST_BYTES: u64 = 1 << 20;
/// Printed once every tree is attached.
const READY: &str = "ready";

/// Trees to attach, as JSON in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lending {
    /// The process of the engine.
    pub engine: u32,
    /// A name that no other request has: 16 hexadecimal digits.
    pub name: String,
    /// Root's files appear as those of this user and group, and theirs as root's: a runtime that
    /// creates files as root and then gives them away needs an owner for the moment between.
    pub user: u32,
    /// The trees.
    pub trees: Vec<LentTree>,
}

/// A host tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LentTree {
    /// The host path, without symbolic links.
    pub path: PathBuf,
    /// The required file type.
    pub kind: TreeKind,
    /// Whether programs may write to it.
    pub writable: bool,
}

impl Lending {
    /// The path of each tree for the engine.
    pub fn places(&self) -> Vec<PathBuf> {
        let folder = Path::new(PLACES).join(&self.name);
        (0..self.trees.len()).map(|number| folder.join(number.to_string())).collect()
    }
}

/// Carries out the request on standard input, until that ends. The process must have one thread.
pub fn lend() -> io::Result<()> {
    let mut input = io::stdin().lock();
    let mut line = String::new();
    io::BufRead::read_line(&mut (&mut input).take(MOST_BYTES), &mut line)?;
    let lending: Lending = serde_json::from_str(&line)?;
    if !is_name(lending.name.as_bytes()) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let trees = taken(&lending)?;
    enter(Path::new(&format!("/proc/{}", lending.engine)))?;
    let lent = Lent::attach(Path::new(PLACES), &lending, trees)?;
    writeln!(io::stdout(), "{READY}")?;
    // Only the end of the input matters.
    io::copy(&mut input, &mut io::sink())?;
    drop(lent);
    Ok(())
}

/// Clones the trees, with their owners changed.
fn taken(lending: &Lending) -> io::Result<Vec<OwnedFd>> {
    let user = lending.user;
    let one = |inside, outside| IdMap { inside, outside, count: 1 };
    let same = |first: u32, count| IdMap { inside: first, outside: first, count };
    let swapped = [
        one(0, user),
        same(1, user - 1),
        one(user, 0),
        // The last number means no user.
        same(user + 1, u32::MAX - user - 1),
    ];
    let mapping = make(&swapped, &swapped)?;
    let take = |tree: &LentTree| {
        let attributes = Attributes { writable: tree.writable, executable: true, devices: false };
        take_tree(&tree.path, attributes, tree.kind, Some(mapping.as_fd()))
    };
    lending.trees.iter().map(take).collect()
}

/// Enters the mount namespace of a process of our own user namespace.
fn enter(process: &Path) -> io::Result<()> {
    // The descriptor is of one process, even if the number is soon another's.
    let process = rustix::fs::open(process, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
    let namespace = openat(&process, "ns/mnt", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    check_user_namespace(&process)?;
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))?)
}

/// Refuses a process, given as its directory, that has a user namespace of its own.
fn check_user_namespace(process: impl AsFd) -> io::Result<()> {
    let identity = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    let own = identity(rustix::fs::stat("/proc/self/ns/user")?);
    match identity(statat(process, "ns/user", AtFlags::empty())?) == own {
        true => Ok(()),
        false => Err(io::Error::other("the engine is in another user namespace")),
    }
}

/// Attached trees; dropping them detaches them and removes their directory.
struct Lent {
    places: OwnedFd,
    name: String,
    /// Locked, so that no other process removes it.
    folder: OwnedFd,
}

impl Lent {
    fn attach(places: &Path, lending: &Lending, trees: Vec<OwnedFd>) -> io::Result<Lent> {
        let places = closed(places)?;
        flock(&places, FlockOperation::LockExclusive)?;
        sweep(&places);
        mkdirat(&places, &lending.name, Mode::RWXU)?;
        let folder = folder(&places, &lending.name)?;
        flock(&folder, FlockOperation::LockExclusive)?;
        flock(&places, FlockOperation::Unlock)?;
        let lent = Lent { places, name: lending.name.clone(), folder };
        for (number, (tree, lending)) in trees.iter().zip(&lending.trees).enumerate() {
            let place = number.to_string();
            // If the mount does not appear for the engine, a program can do nothing here.
            let nothing = Mode::empty();
            match lending.kind {
                TreeKind::Directory => mkdirat(&lent.folder, &place, nothing)?,
                TreeKind::File => {
                    let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                    drop(openat(&lent.folder, &place, new, nothing)?);
                }
            }
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            rustix::mount::move_mount(tree, "", &lent.folder, &place, flags)?;
        }
        Ok(lent)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        remove(&self.places, &self.name, &self.folder);
    }
}

/// Opens the directory of all requests, created if it is missing. Refuses one that another user made
/// or may enter.
fn closed(path: &Path) -> io::Result<OwnedFd> {
    match mkdirat(rustix::fs::CWD, path, Mode::RWXU) {
        Err(rustix::io::Errno::EXIST) => {}
        made => made?,
    }
    let opened = folder(rustix::fs::CWD, path)
        .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
    let found = fstat(&opened)?;
    // Only root may enter a mount namespace.
    match found.st_uid == geteuid().as_raw() && found.st_mode & 0o077 == 0 {
        true => Ok(opened),
        false => Err(io::Error::other(format!(
            "{} does not belong to root alone, or others may enter it",
            path.display()
        ))),
    }
}

/// Opens a directory that is no link.
fn folder(parent: impl AsFd, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

/// Whether a request can have this name.
fn is_name(name: &[u8]) -> bool {
    name.len() == NAME_BYTES && name.iter().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a tree of a request can have this name.
fn is_number(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(u8::is_ascii_digit)
}

/// The names in a directory that have a form.
fn names(folder: &OwnedFd, fits: fn(&[u8]) -> bool) -> Vec<String> {
    let entries = Dir::read_from(folder).into_iter().flatten().flatten();
    let name = |entry: rustix::fs::DirEntry| entry.file_name().to_str().ok().map(str::to_owned);
    entries.filter_map(name).filter(|name| fits(name.as_bytes())).collect()
}

/// Removes what processes have left that were killed.
fn sweep(places: &OwnedFd) {
    for name in names(places, is_name) {
        let Ok(folder) = folder(places, &name) else { continue };
        if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove(places, &name, &folder);
        }
    }
}

/// Detaches every tree of a request and removes its directory. Nothing but empty mount points is
/// deleted.
fn remove(places: &OwnedFd, name: &str, folder: &OwnedFd) {
    for number in names(folder, is_number) {
        // umount2(2) takes no descriptor.
        if fchdir(folder).is_ok() {
            let _ = rustix::mount::unmount(&number, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        }
        // Neither call removes a mount point in use.
        if unlinkat(folder, &number, AtFlags::REMOVEDIR).is_err() {
            let _ = unlinkat(folder, &number, AtFlags::empty());
        }
    }
    let _ = unlinkat(places, name, AtFlags::REMOVEDIR);
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    use stockade_testing::{Scratch, set_mode};

    use super::*;

    #[test]
    fn places_are_a_directory_of_root_alone_and_no_link() {
        let scratch = Scratch::new();
        let places = scratch.path().join("places");
        assert_eq!(fstat(closed(&places).unwrap()).unwrap().st_mode & 0o7777, 0o700);
        closed(&places).unwrap();
        for mode in [0o755, 0o770, 0o701] {
            set_mode(&places, mode);
            let refused = closed(&places).unwrap_err().to_string();
            assert!(refused.contains("does not belong to root alone"), "{mode:o}: {refused}");
        }
        set_mode(&places, 0o700);
        let link = scratch.path().join("link");
        symlink(&places, &link).unwrap();
        closed(&link).unwrap_err();
        if stockade_testing::is_root() {
            std::os::unix::fs::chown(&places, Some(65534), Some(65534)).unwrap();
            closed(&places).unwrap_err();
        }
    }

    #[test]
    fn sweep_removes_only_what_has_the_form_of_a_request() {
        let scratch = Scratch::new();
        let at = |path: &str| scratch.path().join(path);
        let make = |path: &str| fs::create_dir_all(at(path)).unwrap();
        let (left, kept, busy) = ("0123456789abcdef", "0123456789abcdee", "0123456789abcdea");
        make(&format!("places/{left}/0"));
        fs::write(at(&format!("places/{left}/1")), "").unwrap();
        for path in ["kept/0", "places/shadow/0", "places/0123456789ABCDEF/0", "places/123/0"] {
            make(path);
        }
        make(&format!("places/{kept}/0"));
        fs::write(at(&format!("places/{kept}/passwd")), "").unwrap();
        make(&format!("places/{busy}/0"));
        symlink(at("kept"), at("places/0123456789abcdeb")).unwrap();
        set_mode(&at("places"), 0o700);
        let places = closed(&at("places")).unwrap();
        let lock = folder(&places, busy).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        sweep(&places);
        let exists = |path: &str| fs::symlink_metadata(at(path)).is_ok();
        assert!(!exists(&format!("places/{left}")));
        assert!(!exists(&format!("places/{kept}/0")));
        for path in ["kept/0", "places/shadow/0", "places/0123456789ABCDEF/0", "places/123/0"] {
            assert!(exists(path), "{path}");
        }
        assert!(exists(&format!("places/{kept}/passwd")));
        assert!(exists(&format!("places/{busy}/0")));
        assert!(exists("places/0123456789abcdeb"));
        drop(lock);
        sweep(&places);
        assert!(!exists(&format!("places/{busy}")));
    }

    #[test]
    fn process_with_another_user_namespace_is_refused() {
        check_user_namespace(File::open("/proc/self").unwrap()).unwrap();
        // Any other namespace has another identity.
        let scratch = Scratch::new();
        fs::create_dir(scratch.path().join("ns")).unwrap();
        symlink("/proc/self/ns/mnt", scratch.path().join("ns/user")).unwrap();
        let other = File::open(scratch.path()).unwrap();
        let refused = check_user_namespace(other).unwrap_err().to_string();
        assert!(refused.contains("another user namespace"), "{refused}");
    }

    #[test]
    fn name_of_a_request_is_no_path() {
        assert!(is_name(b"0123456789abcdef") && is_number(b"12"));
        for wrong in ["", "..", "0123456789abcde", "0123456789abcdeF", "01234567/9abcdef"] {
            assert!(!is_name(wrong.as_bytes()), "{wrong}");
        }
        for wrong in ["", ".", "..", "1a", "-1", "1/2"] {
            assert!(!is_number(wrong.as_bytes()), "{wrong}");
        }
    }
}
