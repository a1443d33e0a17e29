//! Resolves a path as a thread inside would, one component at a time.
//!
//! The kernel follows no symbolic link here: this reads each link and resolves its text from the
//! sandbox's own root, so that no link leads out of it. The exception is a magic link of `/proc` to
//! an open file, which is opened with `O_PATH` and never read or written.

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fstat, fstatfs, openat, readlinkat,
};
use rustix::io::Errno;

/// The kernel's own limit, path_resolution(7).
const MOST_LINKS: usize = 40;

/// The maximum number of open components; no program is nested deeper.
const MOST_NAMES: usize = 64;

/// Device and inode.
pub(super) type FileId = (u64, u64);

/// The root of a sandbox, as one of its threads sees it.
pub(super) struct Root {
    top: OwnedFd,
    /// The targets of `/proc/self` and `/proc/thread-self` for that thread.
    process: OsString,
    thread: OsString,
}

/// The result of resolving a path.
pub(super) enum End {
    File(Opened),
    /// The path does not exist; contains it with its symbolic links resolved.
    Missing(PathBuf),
    /// It could not be resolved.
    Unknown,
}

/// A file opened with `O_PATH`.
pub(super) struct Opened {
    file: OwnedFd,
    /// Its path inside without symbolic links, or the kernel's name for it.
    pub(super) path: PathBuf,
}

/// The result of one component.
enum Next {
    Entered(OwnedFd),
    /// A symbolic link and its target.
    Link(PathBuf),
    /// A magic link to an open file.
    Jump(OwnedFd, PathBuf),
}

impl Root {
    pub(super) fn new(top: OwnedFd, process: String, thread: String) -> Root {
        let thread = format!("{process}/task/{thread}").into();
        Root { top, process: process.into(), thread }
    }

    /// Resolves an absolute path.
    pub(super) fn walk(&self, path: &Path) -> End {
        let mut left: Vec<OsString> = names(path);
        let mut way: Vec<(OsString, OwnedFd)> = Vec::new();
        let mut links = 0;
        while let Some(name) = left.pop() {
            if name == ".." {
                way.pop();
                continue;
            }
            let here = way.last().map_or(self.top.as_fd(), |(_, file)| file.as_fd());
            match self.next(here, &name, left.is_empty()) {
                // Each component holds one of our descriptors.
                Ok(Next::Entered(_)) if way.len() >= MOST_NAMES => return End::Unknown,
                Ok(Next::Entered(file)) => way.push((name, file)),
                Ok(Next::Jump(file, path)) => return End::File(Opened { file, path }),
                Ok(Next::Link(text)) if links < MOST_LINKS => {
                    links += 1;
                    if text.is_absolute() {
                        way.clear();
                    }
                    left.extend(names(&text));
                }
                Err(Errno::NOENT | Errno::NOTDIR) => {
                    left.push(name);
                    return End::Missing(
                        path_of(&way).join(left.iter().rev().collect::<PathBuf>()),
                    );
                }
                Ok(Next::Link(_)) | Err(_) => return End::Unknown,
            }
        }
        let path = path_of(&way);
        match way.pop() {
            Some((_, file)) => End::File(Opened { file, path }),
            // The root itself, which is not a program.
            None => End::Unknown,
        }
    }

    fn next(&self, here: impl AsFd + Copy, name: &OsStr, is_last: bool) -> Result<Next, Errno> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let file = openat(here, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::Symlink {
            return Ok(Next::Entered(file));
        }
        let is_proc = fstatfs(&file)?.f_type == PROC_SUPER_MAGIC;
        // The kernel resolves these two for the reading process, and this one is not in the
        // sandbox's pid namespace.
        if is_proc && name == "self" {
            return Ok(Next::Link(PathBuf::from(&self.process)));
        }
        if is_proc && name == "thread-self" {
            return Ok(Next::Link(PathBuf::from(&self.thread)));
        }
        let text = readlinkat(here, name, Vec::new())?.into_bytes();
        let text = PathBuf::from(OsString::from_vec(text));
        match is_proc && is_last && text.is_absolute() {
            true => Ok(Next::Jump(openat(here, name, flags, Mode::empty())?, text)),
            false => Ok(Next::Link(text)),
        }
    }
}

impl End {
    pub(super) fn file(self) -> Option<Opened> {
        match self {
            End::File(opened) => Some(opened),
            End::Missing(_) | End::Unknown => None,
        }
    }
}

impl Opened {
    pub(super) fn new(file: OwnedFd, path: PathBuf) -> Opened {
        Opened { file, path }
    }

    pub(super) fn id(&self) -> io::Result<FileId> {
        Ok(id_of(&self.stat()?))
    }

    /// Whether any execute bit is set.
    pub(super) fn is_executable(&self) -> bool {
        let regular = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        self.stat().is_ok_and(|stat| regular(&stat) && stat.st_mode & 0o111 != 0)
    }

    /// Whether it is this host file seen through an overlay, which keeps inode and times but not
    /// the device.
    pub(super) fn is_like(&self, host: &Metadata) -> bool {
        let same = |stat: &Stat| {
            (stat.st_ino, stat.st_size as u64) == (host.ino(), host.len())
                && (stat.st_mtime, stat.st_mtime_nsec as i64) == (host.mtime(), host.mtime_nsec())
        };
        self.stat().is_ok_and(|stat| same(&stat))
    }

    /// A path that opens it for reading. Only for files that are known to be the host's own.
    pub(super) fn reopened(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    fn stat(&self) -> io::Result<Stat> {
        Ok(fstat(&self.file)?)
    }
}

/// The components of a path, in reverse order.
fn names(path: &Path) -> Vec<OsString> {
    let name = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(name).collect()
}

fn path_of(way: &[(OsString, OwnedFd)]) -> PathBuf {
    way.iter().fold(PathBuf::from("/"), |path, (name, _)| path.join(name))
}

fn id_of(stat: &Stat) -> FileId {
    (stat.st_dev, stat.st_ino)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn root(directory: &Path) -> Root {
        let top = rustix::fs::open(directory, OFlags::PATH, Mode::empty()).unwrap();
        Root::new(top, "1".to_owned(), "1".to_owned())
    }

    fn end(root: &Root, path: &str) -> Option<PathBuf> {
        root.walk(Path::new(path)).file().map(|opened| opened.path)
    }

    #[test]
    fn links_are_followed_inside_the_root_and_never_out_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let bin = directory.path().join("usr/bin");
        fs::create_dir_all(&bin).unwrap();
        fs::write(bin.join("ls"), "").unwrap();
        symlink("usr/bin", directory.path().join("bin")).unwrap();
        symlink("/bin/ls", directory.path().join("absolute")).unwrap();
        symlink("../../../../bin/ls", bin.join("climbs")).unwrap();
        symlink("/loop", directory.path().join("loop")).unwrap();
        symlink("/etc/passwd", directory.path().join("out")).unwrap();
        let root = root(directory.path());
        for path in ["/bin/ls", "/absolute", "/usr/bin/climbs", "/../usr/./bin//../bin/ls"] {
            assert_eq!(end(&root, path), Some(PathBuf::from("/usr/bin/ls")), "{path}");
        }
        assert!(matches!(root.walk(Path::new("/loop")), End::Unknown));
        for (path, missing) in [
            ("/out", "/etc/passwd"),
            ("/../../etc/passwd", "/etc/passwd"),
            ("/bin/ls/x", "/usr/bin/ls/x"),
            ("/bin/../bin/cat", "/usr/bin/cat"),
        ] {
            let end = root.walk(Path::new(path));
            assert!(matches!(end, End::Missing(found) if found == Path::new(missing)), "{path}");
        }
    }

    #[test]
    fn path_with_too_many_components_is_unknown() {
        let directory = tempfile::tempdir().unwrap();
        let names = |count: usize| "d/".repeat(count);
        fs::create_dir_all(directory.path().join(names(MOST_NAMES))).unwrap();
        for count in [MOST_NAMES - 1, MOST_NAMES] {
            fs::write(directory.path().join(names(count)).join("program"), "").unwrap();
        }
        let root = root(directory.path());
        let deepest = format!("/{}program", names(MOST_NAMES - 1));
        assert_eq!(end(&root, &deepest), Some(PathBuf::from(&deepest)));
        let deeper = format!("/{}program", names(MOST_NAMES));
        assert!(matches!(root.walk(Path::new(&deeper)), End::Unknown));
        // Components that `..` leaves again do not count.
        let back = format!("/{}{}d", names(MOST_NAMES), "../".repeat(MOST_NAMES));
        assert_eq!(end(&root, &back), Some(PathBuf::from("/d")));
    }

    #[test]
    fn proc_links_resolve_as_for_the_thread_and_reach_open_files() {
        let top = rustix::fs::open("/", OFlags::PATH, Mode::empty()).unwrap();
        let (process, thread) = (std::process::id(), rustix::thread::gettid().as_raw_nonzero());
        let root = Root::new(top, process.to_string(), thread.to_string());
        let real = fs::canonicalize("/proc/self/exe").unwrap();
        for path in ["/proc/self/exe", "/proc/thread-self/exe", "/proc/self/root/proc/self/exe"] {
            assert_eq!(end(&root, path), Some(real.clone()), "{path}");
        }
        let memory = stockade_sys::sealed_file("walked", b"").unwrap();
        let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
        assert_eq!(end(&root, &path), Some(PathBuf::from("/memfd:walked (deleted)")));
    }
}
