//! Changing files that must stay unchanged.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Timestamps, XattrFlags};
use stockade_conformance::Tried;
use stockade_sys::probe::{Argument, raw_call, write_through_map};

use crate::{Act, errno, word};

pub(crate) const ACTS: &[(&str, Act)] = &[
    ("change", change),
    ("empty-by-reading", empty_by_reading),
    ("map-to-write", map_to_write),
    ("reopen-to-write", reopen_to_write),
    ("write", write),
    ("replace-by-link", replace_by_link),
    ("special-bits", special_bits),
    ("make-device", make_device),
    ("lock", lock),
    ("lease", lease),
];

/// Tries every way to change a directory and one file in it.
fn change(words: &[&str]) -> Tried {
    let (directory, file) = (Path::new(word(words, 0)), Path::new(word(words, 1)));
    let new = directory.join("stockade-probe-new");
    let mut tried = Tried::default();
    tried.add("create", fs::write(&new, "x").map(|()| "done"));
    tried.add("append", OpenOptions::new().append(true).open(file).map(|_| "done"));
    tried.add("truncate", open_with(file, libc::O_WRONLY | libc::O_TRUNC).map(|()| "done"));
    tried.add("mkdir", fs::create_dir(new.with_extension("d")).map(|()| "done"));
    tried.add("symlink", symlink("/", new.with_extension("l")).map(|()| "done"));
    tried.add("link", fs::hard_link(file, new.with_extension("h")).map(|()| "done"));
    tried.add("fifo", node(&new.with_extension("f"), FileType::Fifo, 0).map(|()| "done"));
    tried.add("chmod", fs::set_permissions(file, Permissions::from_mode(0o777)).map(|()| "done"));
    let owner = Some(rustix::process::getuid());
    let owned = rustix::fs::chownat(CWD, file, owner, None, AtFlags::empty());
    tried.add("chown", owned.map(|()| "done").map_err(io::Error::from));
    let epoch = rustix::fs::Timespec { tv_sec: 1, tv_nsec: 0 };
    let times = Timestamps { last_access: epoch, last_modification: epoch };
    let touched = rustix::fs::utimensat(CWD, file, &times, AtFlags::empty());
    tried.add("utimes", touched.map(|()| "done").map_err(io::Error::from));
    let marked = rustix::fs::setxattr(file, "user.probe", b"x", XattrFlags::empty());
    tried.add("setxattr", marked.map(|()| "done").map_err(io::Error::from));
    tried.add("rename", fs::rename(file, new.with_extension("r")).map(|()| "done"));
    let unlinked = fs::remove_file(new.with_extension("r")).or_else(|_| fs::remove_file(file));
    tried.add("unlink", unlinked.map(|()| "done"));
    tried
}

fn open_with(path: &Path, flags: i32) -> io::Result<()> {
    let write = flags & libc::O_ACCMODE != libc::O_RDONLY;
    OpenOptions::new().read(!write).write(write).custom_flags(flags).open(path).map(drop)
}

fn node(path: &Path, kind: FileType, device: u64) -> io::Result<()> {
    Ok(rustix::fs::mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), device)?)
}

/// Opens for reading with O_TRUNC, which Landlock before version 3 allows.
fn empty_by_reading(words: &[&str]) -> Tried {
    let flags = OFlags::RDONLY | OFlags::TRUNC;
    let opened = rustix::fs::open(word(words, 0), flags, Mode::empty());
    Tried::one(opened.map(|_| "emptied").map_err(io::Error::from))
}

fn map_to_write(words: &[&str]) -> Tried {
    let file = OpenOptions::new().read(true).write(true).open(word(words, 0));
    Tried::one(file.and_then(|file| write_through_map(file.as_fd())).map(|()| "changed"))
}

/// Opens a file with O_PATH and reopens it for writing through /proc: the way to overwrite a
/// container runtime.
fn reopen_to_write(words: &[&str]) -> Tried {
    let mut tried = Tried::default();
    for path in words {
        let again = || -> io::Result<&str> {
            let name = rustix::fs::open(*path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            let link = format!("/proc/self/fd/{}", name.as_raw_fd());
            OpenOptions::new().write(true).open(link)?;
            Ok("opened")
        };
        tried.add(path, again());
    }
    tried
}

/// Writes a text to each file, and creates missing files.
fn write(words: &[&str]) -> Tried {
    let mut tried = Tried::default();
    for path in words {
        if let Some(parent) = Path::new(path).parent() {
            // An error here occurs again below and is reported there.
            let _ = fs::create_dir_all(parent);
        }
        let file = OpenOptions::new().create(true).append(true).open(path);
        tried.add(path, file.and_then(|mut file| file.write_all(b"probe")).map(|()| "written"));
    }
    tried
}

/// Moves a directory away and puts a symbolic link in its place.
fn replace_by_link(words: &[&str]) -> Tried {
    let (place, away) = (word(words, 0), format!("{}-away", word(words, 0)));
    let swapped = fs::rename(place, away).and_then(|()| symlink("/tmp", place));
    Tried::one(swapped.map(|()| "replaced"))
}

/// Leaves files that would run with another user's rights.
fn special_bits(words: &[&str]) -> Tried {
    let path = Path::new(word(words, 0)).join("special");
    let mut tried = Tried::default();
    if let Err(error) = fs::write(&path, "#!/bin/sh\n") {
        return Tried::one(Err::<String, _>(error));
    }
    for bits in [0o4755, 0o2755, 0o6755] {
        let changed = fs::set_permissions(&path, Permissions::from_mode(bits));
        tried.add(&format!("{bits:o}"), changed.map(|()| "set"));
    }
    // Version 2 of the attribute, one capability, effective.
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let granted =
        rustix::fs::setxattr(&path, "security.capability", &capability, XattrFlags::empty());
    tried.add("capability", granted.map(|()| "set").map_err(io::Error::from));
    tried
}

/// Creates a device node and opens it.
fn make_device(words: &[&str]) -> Tried {
    let path = Path::new(word(words, 0)).join("device");
    let device = word(words, 1).split_once(':').and_then(|(major, minor)| {
        Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
    });
    let Some(device) = device else { return Tried::one(Err::<String, _>(errno(libc::EINVAL))) };
    let made = node(&path, FileType::CharacterDevice, device).and_then(|()| open_with(&path, 0));
    // Best effort: the node may not exist.
    let _ = fs::remove_file(&path);
    Tried::one(made.map(|()| "opened"))
}

/// Takes a lock on each file without blocking.
fn lock(words: &[&str]) -> Tried {
    let mut tried = Tried::default();
    for path in words {
        let locked = fs::File::open(path).and_then(|file| {
            rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
            Ok("locked")
        });
        tried.add(path, locked);
    }
    tried
}

/// Takes a lease, which blocks other processes that open the file.
fn lease(words: &[&str]) -> Tried {
    const SET_LEASE: u32 = 1024;
    let path = word(words, 0);
    let leased = fs::write(path, "x").and_then(|()| fs::File::open(path)).and_then(|file| {
        raw_call(
            libc::SYS_fcntl,
            &mut [
                Argument::Number(file.as_raw_fd().unsigned_abs()),
                Argument::Number(SET_LEASE),
                Argument::Number(libc::F_WRLCK as u32),
            ],
        )
    });
    Tried::one(leased.map(|_| "leased"))
}
