//! Builds the new root.
//!
//! Every path is opened below a descriptor without following links: other processes may change the
//! host's trees meanwhile, and the new root is not sealed yet.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags,
};

use crate::plan::{Attributes, FileMode, MOST_COPIED, Memory, TreeKind};

use super::wrong;

/// Where the new root is mounted until it becomes the root. The directory exists on every system,
/// and its content is not needed: trees are opened before.
pub(super) const STAGE: &str = "/proc";

/// The maximum number of terminals of a sandbox: one for each execution that it may have, and as
/// many for programs that open their own. All of them count against the host's `kernel.pty.max`.
const MOST_TERMINALS: &str = "128";

pub(super) fn private_mounts() -> io::Result<()> {
    // The plan sets all modes; the guest sets the usual mask for programs.
    rustix::process::umask(Mode::empty());
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    Ok(rustix::mount::mount_change("/", flags)?)
}

/// Clones a mounted tree. The attributes apply to all mounts in it, and `owners`, if given, is the
/// idmapping of its files.
pub(crate) fn take_tree(
    path: &Path,
    attributes: Attributes,
    kind: TreeKind,
    owners: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let source = rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve)?;
    match (kind, FileType::from_raw_mode(rustix::fs::fstat(&source)?.st_mode)) {
        // openat2(2) returns a link itself if it is the last component, despite its flags.
        (_, FileType::Symlink) => return Err(rustix::io::Errno::LOOP.into()),
        (TreeKind::Directory, FileType::Directory) => {}
        (TreeKind::Directory, _) => return Err(rustix::io::Errno::NOTDIR.into()),
        (TreeKind::File, FileType::Directory) => return Err(rustix::io::Errno::ISDIR.into()),
        (TreeKind::File, _) => {}
    }
    let tree = clone_tree(&source)?;
    stockade_sys::set_tree_attributes(tree.as_fd(), flags_of(attributes), owners)?;
    Ok(tree)
}

pub(super) fn clone_tree(source: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(rustix::mount::open_tree(source, "", flags)?)
}

pub(super) fn flags_of(attributes: Attributes) -> MountAttrFlags {
    let mut flags = MountAttrFlags::MOUNT_ATTR_NOSUID;
    if !attributes.writable {
        flags |= MountAttrFlags::MOUNT_ATTR_RDONLY;
    }
    if !attributes.executable {
        flags |= MountAttrFlags::MOUNT_ATTR_NOEXEC;
    }
    if !attributes.devices {
        flags |= MountAttrFlags::MOUNT_ATTR_NODEV;
    }
    flags
}

/// A file system in memory, not attached.
pub(super) fn memory_file_system(memory: Memory) -> io::Result<OwnedFd> {
    let context = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let set = |key: &str, value: String| rustix::mount::fsconfig_set_string(&context, key, value);
    set("source", "stockade".to_owned())?;
    set("mode", "0755".to_owned())?;
    set("size", memory.bytes.to_string())?;
    set("nr_inodes", memory.inodes.to_string())?;
    rustix::mount::fsconfig_create(&context)?;
    let attributes = Attributes { writable: true, executable: memory.executable, devices: false };
    let flags = FsMountFlags::FSMOUNT_CLOEXEC;
    Ok(rustix::mount::fsmount(&context, flags, flags_of(attributes))?)
}

/// A file system in memory whose directories are attached one by one. Up to Linux 6.14 only an
/// attached mount can be cloned, so it is mounted where the new root will cover it.
pub(super) fn make_scratch(memory: Memory) -> io::Result<OwnedFd> {
    let scratch = memory_file_system(memory)?;
    move_to(&scratch, CWD, STAGE)?;
    Ok(scratch)
}

pub(super) fn make_root(memory: Memory) -> io::Result<OwnedFd> {
    let root = memory_file_system(memory)?;
    move_to(&root, CWD, STAGE)?;
    Ok(root)
}

pub(super) fn move_to(
    tree: &OwnedFd,
    directory: impl AsFd,
    path: impl rustix::path::Arg,
) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(rustix::mount::move_mount(tree, "", directory, path, flags)?)
}

/// Makes a directory and its parents. The umask is zero.
pub(super) fn directory(root: &OwnedFd, path: &Path, mode: FileMode) -> io::Result<()> {
    let mode = Mode::from_raw_mode(mode.0);
    let Some(name) = path.file_name() else { return Ok(()) };
    let parent = parent_of(root, path)?;
    match rustix::fs::mkdirat(&parent, name, mode) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::EXIST) => {
            let there = below(&parent, Path::new(name), OFlags::RDONLY | OFlags::DIRECTORY)?;
            match rustix::fs::fchmod(there, mode) {
                // A directory of an attached read-only tree stays unchanged.
                Ok(()) | Err(rustix::io::Errno::ROFS) => Ok(()),
                Err(error) => Err(error.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}

pub(super) fn link(root: &OwnedFd, path: &Path, target: &Path) -> io::Result<()> {
    let parent = parent_of(root, path)?;
    let name = path.file_name().ok_or_else(|| wrong("a link needs a name"))?;
    in_place_of_another(&parent, name, || rustix::fs::symlinkat(target, &parent, name))
}

/// Creates an entry whose name may be taken: a directory given as `--root` can have a file or link
/// there. Removes only the name in the upper layer; the directory itself stays unchanged.
fn in_place_of_another<T>(
    parent: &OwnedFd,
    name: &OsStr,
    make: impl Fn() -> rustix::io::Result<T>,
) -> io::Result<T> {
    match make() {
        Err(rustix::io::Errno::EXIST) => {
            rustix::fs::unlinkat(parent, name, AtFlags::empty())?;
            Ok(make()?)
        }
        made => Ok(made?),
    }
}

pub(super) fn file(root: &OwnedFd, path: &Path, content: &[u8]) -> io::Result<()> {
    new_file(root, path, READABLE)?.write_all(content)
}

/// Readable for every user.
const READABLE: Mode = Mode::from_raw_mode(0o444);

pub(super) fn new_file(root: &OwnedFd, path: &Path, mode: Mode) -> io::Result<File> {
    let parent = parent_of(root, path)?;
    let name = path.file_name().ok_or_else(|| wrong("a file needs a name"))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    in_place_of_another(&parent, name, || rustix::fs::openat(&parent, name, flags, mode))
        .map(File::from)
}

/// Copies a file of the host, whose path is valid until the new root becomes the root.
pub(super) fn copy(root: &OwnedFd, path: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let source = rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve)?;
    if FileType::from_raw_mode(rustix::fs::fstat(&source)?.st_mode) != FileType::RegularFile {
        return Err(wrong("it is not a regular file any more"));
    }
    let copy = new_file(root, path, READABLE)?;
    match send_all(&source, &copy, MOST_COPIED + 1)? {
        sent if sent <= MOST_COPIED => Ok(()),
        _ => Err(wrong("it has become too large to copy")),
    }
}

/// Copies a file up to its end or up to `most` bytes, and returns the count. sendfile(2) moves the
/// bytes without touching pages of this process.
pub(super) fn send_all(source: impl AsFd, copy: impl AsFd, most: u64) -> io::Result<u64> {
    let mut sent = 0;
    while sent < most {
        match rustix::fs::sendfile(&copy, &source, None, (most - sent) as usize)? {
            0 => break,
            more => sent += more as u64,
        }
    }
    Ok(sent)
}

/// Attaches a tree at a path of the same type, which is created if it is missing.
pub(super) fn attach(tree: &OwnedFd, root: &OwnedFd, path: &Path) -> io::Result<()> {
    let place = match below(root, path, OFlags::PATH) {
        Ok(place) => place,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match is_directory(tree)? {
                true => directory(root, path, FileMode(0o755))?,
                false => file(root, path, b"")?,
            }
            below(root, path, OFlags::PATH)?
        }
        Err(error) => return Err(error),
    };
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(rustix::mount::move_mount(tree, "", &place, "", flags)?)
}

/// Clones a part of a file system as a tree of its own.
pub(super) fn subtree(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    clone_tree(&below(root, path, OFlags::PATH)?)
}

pub(super) fn proc(root: &OwnedFd, pids_only: bool) -> io::Result<()> {
    let context = rustix::mount::fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(&context, "source", "proc")?;
    if pids_only {
        rustix::mount::fsconfig_set_string(&context, "subset", "pid")?;
    }
    rustix::mount::fsconfig_create(&context)?;
    let attributes = Attributes { writable: true, executable: false, devices: false };
    let flags = FsMountFlags::FSMOUNT_CLOEXEC;
    let mounted = rustix::mount::fsmount(&context, flags, flags_of(attributes))?;
    attach(&mounted, root, Path::new("/proc"))
}

/// Mounts a new instance of devpts, which has no terminal of the host.
pub(super) fn terminals(root: &OwnedFd) -> io::Result<()> {
    let context = rustix::mount::fsopen("devpts", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(&context, "source", "devpts")?;
    rustix::mount::fsconfig_set_string(&context, "ptmxmode", "0666")?;
    rustix::mount::fsconfig_set_string(&context, "mode", "0620")?;
    rustix::mount::fsconfig_set_string(&context, "max", MOST_TERMINALS)?;
    rustix::mount::fsconfig_create(&context)?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mounted = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)?;
    attach(&mounted, root, Path::new("/dev/pts"))
}

/// Sets the maximum number of user namespaces to zero, and bounds inotify watches. See
/// namespaces(7).
pub(super) fn forbid_user_namespaces(root: &OwnedFd) -> io::Result<()> {
    let setting = Path::new("/proc/sys/user/max_user_namespaces");
    File::from(below(root, setting, OFlags::WRONLY)?).write_all(b"0\n")?;
    // Watches count against the user who started the sandbox: grant only a share.
    for (setting, most) in
        [("max_inotify_instances", &b"32"[..]), ("max_inotify_watches", &b"8192"[..])]
    {
        let setting = Path::new("/proc/sys/user").join(setting);
        match below(root, &setting, OFlags::WRONLY) {
            Ok(file) => File::from(file).write_all(most)?,
            // A kernel without inotify needs no limit.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Lets unprivileged processes bind every port of the network namespace.
pub(super) fn open_ports(root: &OwnedFd) -> io::Result<()> {
    let setting = Path::new("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    File::from(below(root, setting, OFlags::WRONLY)?).write_all(b"0\n")
}

/// Makes the new root the root, and detaches the old one with all its mounts.
pub(super) fn pivot(root: &OwnedFd) -> io::Result<()> {
    rustix::process::fchdir(root)?;
    // Both at the same path: the old root is then on top and is detached from there, pivot_root(2).
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    let (here, above) = (
        rustix::fs::statat(CWD, "/", AtFlags::empty())?,
        rustix::fs::statat(CWD, "/..", AtFlags::empty())?,
    );
    let ours = rustix::fs::fstat(root)?;
    if (here.st_dev, here.st_ino) != (ours.st_dev, ours.st_ino)
        || (here.st_dev, here.st_ino) != (above.st_dev, above.st_ino)
    {
        return Err(wrong("the root is not the one that was built"));
    }
    Ok(())
}

/// Makes the root read-only, and `/proc`, through which a process could change kernel settings.
pub(super) fn seal_root() -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    for path in ["/proc", "/"] {
        let mount = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        stockade_sys::set_mount_attributes(mount.as_fd(), MountAttrFlags::MOUNT_ATTR_RDONLY)?;
    }
    Ok(())
}

pub(super) fn is_directory(open: &OwnedFd) -> io::Result<bool> {
    let mode = rustix::fs::fstat(open)?.st_mode;
    Ok(FileType::from_raw_mode(mode) == FileType::Directory)
}

/// Opens a path below a root; no component may be a symbolic link.
pub(super) fn below(root: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::openat2(root, relative, flags, Mode::empty(), resolve)?)
}

/// Opens the parent directory of a path, and creates it if it is missing.
fn parent_of(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    // It nearly always exists.
    match below(root, parent, OFlags::PATH | OFlags::DIRECTORY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    let mut at = below(root, Path::new("/"), OFlags::PATH | OFlags::DIRECTORY)?;
    for component in parent.components() {
        let Component::Normal(name) = component else { continue };
        match rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
            // A directory of an attached read-only tree cannot be created, and exists already.
            Ok(()) | Err(rustix::io::Errno::EXIST | rustix::io::Errno::ROFS) => {}
            Err(error) => return Err(error.into()),
        }
        at = below(&at, Path::new(name), OFlags::PATH | OFlags::DIRECTORY)?;
    }
    Ok(at)
}
