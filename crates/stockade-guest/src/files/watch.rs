//! Reports changes below a directory, with inotify(7).

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Dir;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use stockade_wire::{FileChange, FileChangeKind, FileDone, FileFault, FileKind, PathBytes, encode};

use super::fault::Fault;
use super::list::{MAX_DEPTH, below};
use super::root::{Missing, Root, open_directory};
use super::stat::stat_at;

/// The maximum number of watched directories.
const MAX_DIRECTORIES: usize = 4096;

/// Sends changes until the directory is gone or the host closes its end of `input`.
pub(super) fn watch(
    root: &Root,
    path: &PathBytes,
    recursive: bool,
    input: &impl AsFd,
    output: &mut impl Write,
) -> Result<FileDone, Fault> {
    let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let directories = HashMap::new();
    let mut watching = Watching { root, path, events, directories, recursive, output };
    let first = root.directory(path, Missing::Fail)?;
    watching.add_all(first, &[], MAX_DEPTH, Found::Before)?;
    watching.send(FileChangeKind::Ready, &[])?;
    loop {
        watching.output.flush()?;
        // The host sends nothing more, so its end shows that it is gone.
        let events = PollFd::new(&watching.events, PollFlags::IN);
        let mut polled = [events, PollFd::new(input, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let is_over = !polled[1].revents().is_empty();
        if is_over || !watching.report()? {
            return Ok(FileDone::default());
        }
    }
}

/// Whether a directory was there when the watch began.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Before,
    Meanwhile,
}

struct Watching<'o, W> {
    root: &'o Root,
    path: &'o PathBytes,
    events: OwnedFd,
    /// The path of each watched directory, below the first.
    directories: HashMap<i32, Vec<u8>>,
    recursive: bool,
    output: &'o mut W,
}

impl<W: Write> Watching<'_, W> {
    /// Watches a directory and closes it: the kernel reports the end of a directory only when nothing
    /// holds it.
    fn add_all(
        &mut self,
        directory: OwnedFd,
        path: &[u8],
        depth: u32,
        found: Found,
    ) -> Result<(), Fault> {
        let added = self.add(&directory, path, depth, found);
        rustix::process::chdir("/")?;
        added
    }

    /// Watches a directory, and those below it. What is in a directory that appeared meanwhile is
    /// reported: it may be older than the watch.
    fn add(
        &mut self,
        directory: &OwnedFd,
        path: &[u8],
        depth: u32,
        found: Found,
    ) -> Result<(), Fault> {
        let flags = WatchFlags::CREATE
            | WatchFlags::MOVE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        if self.directories.len() == MAX_DIRECTORIES {
            return Err(FileFault::TooLarge.into());
        }
        // Only this process changes its directory, and so watches exactly the open one.
        rustix::process::fchdir(directory)?;
        let watch = inotify::add_watch(&self.events, ".", flags)?;
        self.directories.insert(watch, path.to_vec());
        if !self.recursive || depth == 0 {
            return Ok(());
        }
        let mut entries = Dir::read_from(directory)?;
        while let Some(entry) = entries.read() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let inner = below(path, name);
            if found == Found::Meanwhile {
                self.send(FileChangeKind::Created, &inner)?;
            }
            let name = OsStr::from_bytes(name);
            let is_directory =
                stat_at(directory, name).is_ok_and(|stat| stat.kind == FileKind::Directory);
            if is_directory && let Ok(opened) = open_directory(directory, name) {
                self.add(&opened, &inner, depth - 1, found)?;
            }
        }
        Ok(())
    }

    /// Reports all pending events. Returns false when the first directory is gone.
    fn report(&mut self) -> Result<bool, Fault> {
        let mut space = [MaybeUninit::uninit(); 16 << 10];
        let mut pending = Vec::new();
        let mut reader = Reader::new(&self.events, &mut space);
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| name.to_bytes().to_vec());
                    pending.push((event.wd(), event.events(), name));
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if pending.len() == MAX_DIRECTORIES {
                break;
            }
        }
        for (watch, flags, name) in pending {
            if !self.event(watch, flags, name)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn event(
        &mut self,
        watch: i32,
        flags: ReadFlags,
        name: Option<Vec<u8>>,
    ) -> Result<bool, Fault> {
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.send(FileChangeKind::Lost, &[])?;
            return Ok(true);
        }
        let Some(directory) = self.directories.get(&watch).cloned() else { return Ok(true) };
        let gone = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT;
        if flags.intersects(gone | ReadFlags::IGNORED) {
            // Events of the directory above report those below the first one.
            self.directories.remove(&watch);
            if directory.is_empty() {
                self.send(FileChangeKind::Removed, &[])?;
                return Ok(false);
            }
            return Ok(true);
        }
        let path = match &name {
            Some(name) => below(&directory, name),
            // The directory's own attributes; those of one below come from the directory above.
            None if !directory.is_empty() => return Ok(true),
            None => directory,
        };
        let appeared = flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
        let kind = if appeared {
            FileChangeKind::Created
        } else if flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
            FileChangeKind::Removed
        } else {
            FileChangeKind::Modified
        };
        self.send(kind, &path)?;
        if appeared && self.recursive && flags.contains(ReadFlags::ISDIR) {
            self.add_new(&path)?;
        }
        Ok(true)
    }

    /// Watches a directory that appeared, unless it is gone again.
    fn add_new(&mut self, path: &[u8]) -> Result<(), Fault> {
        let Ok(mut here) = self.root.directory(self.path, Missing::Fail) else { return Ok(()) };
        let mut depth = MAX_DEPTH;
        for name in path.split(|byte| *byte == b'/') {
            here = match open_directory(&here, OsStr::from_bytes(name)) {
                Ok(inner) => inner,
                Err(_) => return Ok(()),
            };
            depth = depth.saturating_sub(1);
        }
        self.add_all(here, path, depth, Found::Meanwhile)
    }

    fn send(&mut self, kind: FileChangeKind, path: &[u8]) -> Result<(), Fault> {
        let path = PathBytes::try_from(path.to_vec()).map_err(|_| FileFault::NameTooLong)?;
        let frame = encode(&FileChange { kind, path }).map_err(|_| FileFault::Other)?;
        Ok(self.output.write_all(&frame)?)
    }
}
