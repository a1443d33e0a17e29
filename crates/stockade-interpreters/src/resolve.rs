//! Follows a path link by link, and refuses it if another user could change where it leads.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use super::SymbolicLink;
use super::problem::Problem;

/// The users that may own the files: this user and root.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trust {
    pub(super) user: u32,
}

/// Where a path leads.
#[derive(Debug)]
pub(super) struct Resolved {
    /// The path without links.
    pub(super) real: PathBuf,
    pub(super) metadata: Metadata,
    /// Every link on the path.
    pub(super) links: Vec<SymbolicLink>,
    /// The successive names of the last component, each in a directory without links; the last is
    /// `real`.
    pub(super) names: Vec<PathBuf>,
}

const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o002;

impl Trust {
    /// Follows an absolute path. Every component must belong to root or this user, and no directory
    /// may allow other users to replace the next component.
    pub(super) fn resolve(self, path: &Path) -> Result<Resolved, Problem> {
        const MOST_LINKS: usize = 40; // As the kernel, path_resolution(7).
        if !path.is_absolute() {
            return Err(Problem::Relative);
        }
        let mut real = PathBuf::from("/");
        let mut metadata = self.check(&real)?;
        let mut rest = components(path);
        let (mut links, mut names) = (Vec::new(), Vec::new());
        while let Some(part) = rest.pop_front() {
            if part == ".." {
                real.pop();
                metadata = self.check(&real)?;
                continue;
            }
            if !metadata.is_dir() {
                return Err(Problem::Missing { path: real.join(part) });
            }
            real.push(part);
            metadata = self.check(&real)?;
            if rest.is_empty() {
                names.push(real.clone());
            }
            if metadata.is_symlink() {
                if links.len() == MOST_LINKS {
                    return Err(Problem::Loop { path: path.to_path_buf() });
                }
                let target = fs::read_link(&real).map_err(|error| Problem::of_io(&real, &error))?;
                links.push(SymbolicLink { at: real.clone(), target: target.clone() });
                real.pop();
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                metadata = self.check(&real)?;
                for part in components(&target).into_iter().rev() {
                    rest.push_front(part);
                }
            }
        }
        Ok(Resolved { real, metadata, links, names })
    }

    /// Follows an absolute path to an executable file. None of its names may be in a world-writable
    /// directory, not even a sticky one.
    pub(super) fn executable(self, path: &Path) -> Result<Resolved, Problem> {
        let resolved = self.resolve(path)?;
        for directory in resolved.names.iter().filter_map(|name| name.parent()) {
            if self.check(directory)?.mode() & OTHERS_WRITE != 0 {
                return Err(Problem::WorldWritable { path: directory.to_path_buf() });
            }
        }
        let path = resolved.real.clone();
        if !resolved.metadata.is_file() {
            return Err(Problem::NotAFile { path });
        }
        if resolved.metadata.permissions().mode() & 0o111 == 0 {
            return Err(Problem::NotExecutable { path });
        }
        Ok(resolved)
    }

    /// The metadata of a path without links, if no other user could have created it.
    fn check(self, path: &Path) -> Result<Metadata, Problem> {
        let metadata = fs::symlink_metadata(path).map_err(|error| Problem::of_io(path, &error))?;
        let owner = metadata.uid();
        if owner != 0 && owner != self.user {
            return Err(Problem::ForeignOwner { path: path.to_path_buf(), owner });
        }
        // The mode of a link is meaningless, symlink(7). In a sticky directory only the owner of an
        // entry can replace it, and this checks the owner of every entry.
        let sticky = metadata.is_dir() && metadata.mode() & STICKY != 0;
        if !metadata.is_symlink() && metadata.mode() & OTHERS_WRITE != 0 && !sticky {
            return Err(Problem::WorldWritable { path: path.to_path_buf() });
        }
        Ok(metadata)
    }
}

fn components(path: &Path) -> VecDeque<OsString> {
    let part = |component| match component {
        Component::Normal(part) => Some(part.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(part).collect()
}
