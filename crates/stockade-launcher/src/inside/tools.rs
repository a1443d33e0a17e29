//! The directory where programs find the tools of their host.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::mount::MountAttrFlags;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::plan::{Memory, ToolSocket};

use super::files::{attach, below, memory_file_system, new_file, send_all};
use super::wrong;

/// How many connections wait to be accepted.
const WAITING: i32 = 1024;
/// The largest page of any machine: a file takes whole pages.
const LARGEST_PAGE: u64 = 64 << 10;
/// The most bytes of the command, which is this executable.
const MOST_COMMAND_BYTES: u64 = 256 << 20;
/// What is in the directory beside files and the directories above them: its top and the socket.
const OTHER_INODES: u64 = 8;

/// Makes the directory with everything in it, and lets nobody change it any more. Returns where the
/// guest listens.
pub(super) fn open(tools: &ToolSocket) -> io::Result<UnixListener> {
    let ToolSocket { directory, files, command, socket } = tools;
    let executable = this_executable()?;
    let bytes = rustix::fs::fstat(&executable)?.st_size as u64;
    if bytes > MOST_COMMAND_BYTES {
        return Err(wrong("this executable is too large to copy"));
    }
    let memory = memory_file_system(Memory {
        bytes: pages(bytes)
            + files.iter().map(|file| pages(file.content.len() as u64)).sum::<u64>(),
        inodes: inodes(files.iter().map(|file| file.path.as_path()).chain([command.as_path()])),
        executable: true,
    })?;
    for file in files {
        new_file(&memory, plain(&file.path)?, READABLE)?.write_all(file.content.as_bytes())?;
    }
    let copy = new_file(&memory, plain(command)?, EXECUTABLE)?;
    if send_all(&executable, &copy, MOST_COMMAND_BYTES)? != bytes {
        return Err(wrong("this executable could not be copied whole"));
    }
    // What is open for writing keeps a mount from becoming read-only.
    drop(copy);
    let root =
        rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    attach(&memory, &root, directory)?;
    let listener = listen(&directory.join(plain(socket)?))?;
    // Last: from here on nothing in it can be made, removed, renamed or written.
    let flags = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV;
    stockade_sys::set_mount_attributes(memory.as_fd(), flags)?;
    check(&memory, &root, directory, socket)?;
    Ok(listener)
}

const READABLE: Mode = Mode::from_raw_mode(0o444);
const EXECUTABLE: Mode = Mode::from_raw_mode(0o555);
/// Whoever is inside may connect.
const CONNECTABLE: Mode = Mode::from_raw_mode(0o666);

fn pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(LARGEST_PAGE)
}

/// One for each name on the way to each path; some are counted more than once.
fn inodes<'p>(paths: impl Iterator<Item = &'p Path>) -> u64 {
    OTHER_INODES + paths.map(|path| path.components().count() as u64).sum::<u64>()
}

/// A path that leads nowhere but down.
fn plain(path: &Path) -> io::Result<&Path> {
    let down = |part: Component<'_>| matches!(part, Component::Normal(_));
    match path.components().all(down) && path.file_name().is_some() {
        true => Ok(path),
        false => Err(wrong("a path of the tools leads out of their directory")),
    }
}

/// The file that this process runs, whatever path it had, if any.
fn this_executable() -> io::Result<File> {
    let opened =
        rustix::fs::open("/proc/self/exe", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(File::from(opened))
}

/// By its whole path, which is the name that whoever connects is told.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::fs::chmodat(CWD, path, CONNECTABLE, AtFlags::empty())?;
    rustix::net::listen(&socket, WAITING)?;
    Ok(UnixListener::from(socket))
}

/// Whether it is ours that is found at its place, with the socket in it.
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
