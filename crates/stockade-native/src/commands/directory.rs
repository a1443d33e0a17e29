//! Programs of a directory given by `--root`. Symbolic links are resolved inside it and cannot lead
//! out of it.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};
use stockade_interpreters::loader_of;
use stockade_policy::SEARCH_PATH;

use crate::error::StartError;

/// The paths inside, without symbolic links, of the listed programs and their loaders.
pub(super) fn executables<'n>(
    names: impl Iterator<Item = &'n str>,
    root: &Path,
) -> Result<Vec<PathBuf>, StartError> {
    let top = open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|source| StartError::prepare("open the root")(source.into()))?;
    let root = Directory { path: root, top };
    let mut executables = Vec::new();
    for name in names {
        let missing = || StartError::NoCommand { name: name.to_owned() };
        let program = root.find(name).ok_or_else(missing)?;
        // `program` has no links, so its host path has none either.
        let loader = loader_of(&root.on_host(&program));
        executables.extend(loader.and_then(|loader| root.program(&loader)));
        executables.push(program);
    }
    executables.sort();
    executables.dedup();
    Ok(executables)
}

struct Directory<'r> {
    path: &'r Path,
    top: OwnedFd,
}

impl Directory<'_> {
    /// Looks up a bare name in the search path; an absolute path is used as it is.
    fn find(&self, name: &str) -> Option<PathBuf> {
        match name.starts_with('/') {
            true => self.program(Path::new(name)),
            false => {
                SEARCH_PATH.iter().find_map(|place| self.program(&Path::new(place).join(name)))
            }
        }
    }

    /// The path inside of the program that a name starts.
    fn program(&self, name: &Path) -> Option<PathBuf> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let file = openat2(&self.top, name, flags, Mode::empty(), resolve).ok()?;
        let mode = fstat(&file).ok()?.st_mode;
        let is_program =
            FileType::from_raw_mode(mode) == FileType::RegularFile && mode & 0o111 != 0;
        let real = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        let inside = real.strip_prefix(self.path).ok().filter(|_| is_program)?;
        Some(Path::new("/").join(inside))
    }

    fn on_host(&self, inside: &Path) -> PathBuf {
        self.path.join(inside.strip_prefix("/").unwrap_or(inside))
    }
}
