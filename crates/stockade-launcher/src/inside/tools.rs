//! The directory through which programs call the tools of the host and report denied commands.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::mount::MountAttrFlags;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::plan::{Memory, ToolSocket};

use super::files::{attach, below, memory_file_system, new_file, send_all};
use super::wrong;

/// The backlog of the listener.
const WAITING: i32 = 4096;
/// The largest page size of any machine: a file occupies whole pages.
const LARGEST_PAGE: u64 = 64 << 10;
/// The maximum size of the command, which is a copy of this executable.
const MOST_COMMAND_BYTES: u64 = 256 << 20;
/// Inodes in addition to the files and their parent directories: the root and the sockets.
const OTHER_INODES: u64 = 8;

/// The listeners of the directory, for the guest.
pub(super) struct ToolListeners {
    pub(super) tools: Option<UnixListener>,
    pub(super) denials: Option<UnixListener>,
}

/// Creates the directory with its files and makes it read-only.
pub(super) fn open(tools: &ToolSocket) -> io::Result<ToolListeners> {
    let ToolSocket { directory, files, commands, socket, denials, .. } = tools;
    let executable = this_executable()?;
    let bytes = rustix::fs::fstat(&executable)?.st_size as u64;
    if bytes > MOST_COMMAND_BYTES {
        return Err(wrong("this executable is too large to copy"));
    }
    let memory = memory_file_system(Memory {
        bytes: pages(bytes)
            + files.iter().map(|file| pages(file.content.len() as u64)).sum::<u64>(),
        inodes: inodes(files.iter().map(|file| &file.path).chain(commands)),
        executable: true,
    })?;
    let root =
        rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    attach(&memory, &root, directory)?;
    for file in files {
        new_file(&memory, plain(&file.path)?, READABLE)?.write_all(file.content.as_bytes())?;
    }
    copy_to(&memory, &executable, bytes, commands)?;
    let open = |socket: &PathBuf| listen(&directory.join(plain(socket)?));
    let listeners = ToolListeners {
        tools: socket.as_ref().map(open).transpose()?,
        denials: denials.as_ref().map(open).transpose()?,
    };
    #[cfg(feature = "weaken")]
    if tools.writable {
        return Ok(listeners);
    }
    // Last: from here on no entry can be created, removed, renamed or written.
    let flags = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV;
    stockade_sys::set_mount_attributes(memory.as_fd(), flags)?;
    for socket in socket.iter().chain(denials) {
        check(&memory, &root, directory, socket)?;
    }
    Ok(listeners)
}

/// Copies the executable to the first path, and links the others to it.
fn copy_to(
    memory: &OwnedFd,
    executable: &File,
    bytes: u64,
    commands: &[PathBuf],
) -> io::Result<()> {
    let Some((first, others)) = commands.split_first() else { return Ok(()) };
    let copy = new_file(memory, plain(first)?, EXECUTABLE)?;
    if send_all(executable, &copy, MOST_COMMAND_BYTES)? != bytes {
        return Err(wrong("this executable could not be copied whole"));
    }
    // A file open for writing keeps a mount from becoming read-only.
    drop(copy);
    for other in others {
        rustix::fs::linkat(memory, first, memory, plain(other)?, AtFlags::empty())?;
    }
    Ok(())
}

const READABLE: Mode = Mode::from_raw_mode(0o444);
const EXECUTABLE: Mode = Mode::from_raw_mode(0o555);
/// Any process inside may connect.
const CONNECTABLE: Mode = Mode::from_raw_mode(0o666);

fn pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(LARGEST_PAGE)
}

/// One inode for each component of each path; shared parents are counted more than once.
fn inodes<'p>(paths: impl Iterator<Item = &'p PathBuf>) -> u64 {
    OTHER_INODES + paths.map(|path| path.components().count() as u64).sum::<u64>()
}

/// Accepts only a path without `..` or other special components.
fn plain(path: &Path) -> io::Result<&Path> {
    let down = |part: Component<'_>| matches!(part, Component::Normal(_));
    match path.components().all(down) && path.file_name().is_some() {
        true => Ok(path),
        false => Err(wrong("a path of the tools leads out of their directory")),
    }
}

/// Opens the file that this process runs; it may have no path.
fn this_executable() -> io::Result<File> {
    let opened =
        rustix::fs::open("/proc/self/exe", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(File::from(opened))
}

/// Binds the absolute path, which clients see as the address of their peer.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::fs::chmodat(CWD, path, CONNECTABLE, AtFlags::empty())?;
    rustix::net::listen(&socket, WAITING)?;
    Ok(UnixListener::from(socket))
}

/// Checks that the directory at its path is this file system, with the socket in it.
fn check(memory: &OwnedFd, root: &OwnedFd, directory: &Path, socket: &Path) -> io::Result<()> {
    let found = below(root, directory, OFlags::PATH | OFlags::DIRECTORY)?;
    let (ours, theirs) = (rustix::fs::fstat(memory)?, rustix::fs::fstat(&found)?);
    let made = rustix::fs::statat(&found, socket, AtFlags::SYMLINK_NOFOLLOW)?;
    let is_ours = (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino);
    match is_ours && FileType::from_raw_mode(made.st_mode) == FileType::Socket {
        true => Ok(()),
        false => Err(wrong("the tools are not what is found at their place")),
    }
}
