//! Adds up the size of a scratch directory from outside.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, chmod, openat, statat};

/// The maximum nesting of directories; deeper ones could hide files from the count.
const MOST_DEPTH: usize = 200;

/// The unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// The size of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) bytes: u64,
    pub(crate) inodes: u64,
    /// Directories are nested deeper than the walk goes.
    pub(crate) too_deep: bool,
}

/// Adds up everything below a directory, and stops early above `most_inodes`. Skips files that
/// disappear meanwhile and does not see open files without a name.
pub(crate) fn usage(top: &OwnedFd, most_inodes: u64) -> Usage {
    let mut usage = Usage::default();
    let mut open: Vec<Dir> = Dir::read_from(top).ok().into_iter().collect();
    loop {
        let depth = open.len();
        let Some(directory) = open.last_mut() else { return usage };
        let Some(entry) = directory.next() else {
            open.pop();
            continue;
        };
        let Ok(entry) = entry else { continue };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let Ok(parent) = directory.fd() else { continue };
        let Ok(found) = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        usage.inodes += 1;
        usage.bytes += u64::try_from(found.st_blocks).unwrap_or(0) * BLOCK_BYTES;
        if usage.inodes > most_inodes {
            return usage;
        }
        if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
            continue;
        }
        if depth == MOST_DEPTH {
            usage.too_deep = true;
            return usage;
        }
        let below = below(parent, name);
        open.extend(below);
    }
}

/// Opens a subdirectory; makes it readable first if its owner made it unreadable.
fn below(parent: BorrowedFd<'_>, name: &std::ffi::CStr) -> Option<Dir> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let read = || openat(parent, name, flags | OFlags::RDONLY, Mode::empty());
    let directory = match read() {
        Err(rustix::io::Errno::ACCESS) => {
            let same = openat(parent, name, flags | OFlags::PATH, Mode::empty()).ok()?;
            chmod(format!("/proc/self/fd/{}", same.as_raw_fd()), Mode::RWXU).ok()?;
            read()
        }
        other => other,
    };
    Dir::new(directory.ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn look(path: &std::path::Path, most: u64) -> Usage {
        usage(&fs::File::open(path).unwrap().into(), most)
    }

    #[test]
    fn files_in_all_directories_count_and_links_are_not_followed() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir_all(scratch.path().join("a/b")).unwrap();
        fs::write(scratch.path().join("a/b/file"), vec![1; 1 << 20]).unwrap();
        symlink("/usr", scratch.path().join("link")).unwrap();
        let found = look(scratch.path(), 100);
        assert_eq!((found.inodes, found.too_deep), (4, false));
        assert!((1 << 20..2 << 20).contains(&found.bytes), "{found:?}");
        assert_eq!(look(scratch.path(), 2).inodes, 3);
    }

    #[test]
    fn too_deep_nesting_is_reported() {
        let scratch = tempfile::tempdir().unwrap();
        let mut path = scratch.path().to_owned();
        path.extend(vec!["d"; MOST_DEPTH + 5]);
        fs::create_dir_all(path).unwrap();
        assert!(look(scratch.path(), u64::MAX).too_deep);
    }
}
