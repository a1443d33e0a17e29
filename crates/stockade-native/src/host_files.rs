//! The host files that a sandbox sees.

use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};
use stockade_hostfiles::Shown;
use stockade_interpreters::{Bind, SymbolicLink};
use stockade_launcher::TreeKind;

use crate::commands::Commands;
use crate::plan::ACCOUNTS;

/// The source of a sandbox's root directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// The host's own programs and libraries.
    System {
        /// Directories and files, shown read-only at their host paths.
        binds: Vec<(Bind, TreeKind)>,
        /// Symbolic links to create.
        links: Vec<SymbolicLink>,
    },
    /// A directory of the host.
    Directory(PathBuf),
    /// The files of an image.
    Image {
        /// Where they are.
        directory: PathBuf,
        /// The files inside that keep the image's content although the wall has its own.
        own: Vec<PathBuf>,
    },
}

/// The host files that a sandbox sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostFiles {
    pub(crate) base: Base,
    /// Mounts and the workspace, outer ones first.
    pub(crate) shown: Vec<Shown>,
    /// Set if the policy has a `command_allowlist`.
    pub(crate) commands: Option<Commands>,
    /// Directories inside that no program may rename or remove.
    pub(crate) pinned: Vec<PathBuf>,
}

/// The files of an image that name its users, if they are plain files. Links of the image above
/// them are followed as if the image were `/`: none leads to a file of the host.
pub(crate) fn accounts(image: &Path) -> Vec<PathBuf> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let Ok(root) = open(image, flags | OFlags::DIRECTORY, Mode::empty()) else {
        return Vec::new();
    };
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let is_file = |path: &&str| {
        openat2(&root, *path, flags | OFlags::NOFOLLOW, Mode::empty(), inside)
            .and_then(fstat)
            .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile)
    };
    ACCOUNTS.into_iter().filter(is_file).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn accounts_of_an_image_are_never_those_of_the_host() {
        let folder = tempfile::tempdir().unwrap();
        let (outside, image) = (folder.path().join("outside"), folder.path().join("image"));
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("passwd"), "").unwrap();
        fs::create_dir_all(image.join("usr/etc")).unwrap();
        // Only the host has a file there.
        symlink(&outside, image.join("etc")).unwrap();
        assert!(image.join("etc/passwd").is_file());
        assert_eq!(accounts(&image), Vec::<PathBuf>::new());
        // The same kind of link to files of the image; the last part must not be a link.
        fs::remove_file(image.join("etc")).unwrap();
        symlink("/usr/etc", image.join("etc")).unwrap();
        fs::write(image.join("usr/etc/passwd"), "").unwrap();
        symlink("passwd", image.join("usr/etc/group")).unwrap();
        assert_eq!(accounts(&image), [PathBuf::from("/etc/passwd")]);
    }
}
