//! Names below an open directory, resolved one component at a time without following a link.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;

use crate::Refusal;

/// The components of an entry's name; none for the directory itself.
pub fn components(name: &[u8]) -> Result<Vec<&[u8]>, Refusal> {
    if name.is_empty() || name.starts_with(b"/") {
        return Err(Refusal::Name);
    }
    let parts = name.split(|byte| *byte == b'/');
    let parts: Vec<&[u8]> = parts.filter(|part| !part.is_empty() && *part != b".").collect();
    match parts.contains(&b"..".as_slice()) {
        true => Err(Refusal::Name),
        false => Ok(parts),
    }
}

/// Opens the directory of these components, and makes those that are missing.
pub(crate) fn directory(root: BorrowedFd<'_>, components: &[&[u8]]) -> rustix::io::Result<OwnedFd> {
    let mut here = root.as_fd().try_clone_to_owned().map_err(|_| Errno::MFILE)?;
    for component in components {
        here = match open(here.as_fd(), component) {
            Err(Errno::NOENT) => {
                match mkdirat(&here, *component, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno),
                }
                open(here.as_fd(), component)?
            }
            other => other?,
        };
    }
    Ok(here)
}

/// Opens a directory; a link is not followed.
pub(crate) fn open(parent: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

/// Whether a link at this depth below a directory stays below it: relative, and goes up only at its
/// beginning, where every component above is a real directory. A `..` after a name could follow
/// another link, and then lead out.
pub fn stays(target: &[u8], depth: usize) -> bool {
    if target.is_empty() || target.starts_with(b"/") {
        return false;
    }
    let parts = target.split(|byte| *byte == b'/');
    let parts: Vec<&[u8]> = parts.filter(|part| !part.is_empty() && *part != b".").collect();
    let up = parts.iter().take_while(|part| **part == b"..").count();
    up <= depth && !parts[up..].contains(&b"..".as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        assert_eq!(components(b"./a//b/"), Ok(vec![b"a".as_slice(), b"b"]));
        assert_eq!(components(b"."), Ok(vec![]));
        for name in [&b""[..], b"/", b"/a", b"..", b"../a", b"a/..", b"a/../b", b"./.."] {
            assert_eq!(components(name), Err(Refusal::Name), "{name:?}");
        }
    }

    #[test]
    fn only_links_that_go_up_through_real_directories_stay() {
        for (target, depth) in
            [(&b"a"[..], 0), (b"a/b", 0), (b"./a", 0), (b"..", 1), (b"../../a/b", 2), (b".", 0)]
        {
            assert!(stays(target, depth), "{target:?}");
        }
        for (target, depth) in [
            (&b""[..], 3),
            (b"/", 3),
            (b"/etc/passwd", 3),
            (b"..", 0),
            (b"../..", 1),
            (b"a/..", 3),
            (b"../a/../b", 3),
            (b"./..", 0),
        ] {
            assert!(!stays(target, depth), "{target:?}");
        }
    }
}
