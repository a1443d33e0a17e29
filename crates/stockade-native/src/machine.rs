//! Inspects this machine: privileges, kernel features and system files.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use serde::Serialize;
use stockade_hostfiles::{Mounts, SocketSearch};
use stockade_interpreters::{Bind, SymbolicLink, system};
use stockade_launcher::MOST_COPIED;
use stockade_policy::SETTINGS;
use stockade_sys::{HardLimit, kernel_version};

use crate::sub_ids::SubIds;

/// The first Landlock version that can refuse truncation; without it a program could empty a
/// read-only file.
pub(crate) const LANDLOCK_NEEDED: u32 = 3;

/// The first Landlock version that can refuse connections to Unix sockets by path.
pub(crate) const LANDLOCK_HOLDS_SOCKETS: u32 = 9;

/// The newest Landlock version that Stockade knows.
const LANDLOCK_KNOWN: u32 = LANDLOCK_HOLDS_SOCKETS;

/// The properties of the machine that a plan depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// Ids that the host delegates to a caller who is not root.
    pub(crate) sub_ids: Option<SubIds>,
    /// The Landlock version to use; 0 if Landlock is missing or too old.
    pub(crate) landlock: u32,
    /// The state of Landlock.
    pub(crate) landlock_found: Landlock,
    /// The major and minor version of the kernel.
    pub(crate) kernel: (u32, u32),
    /// Directories with programs and libraries, and the links between them.
    pub(crate) system: Vec<Bind>,
    pub(crate) links: Vec<SymbolicLink>,
    /// Public files below `/etc` that programs need.
    pub(crate) settings: Vec<Setting>,
    pub(crate) mounts: Mounts,
    /// The highest `RLIMIT_NOFILE` that a process can get.
    pub(crate) open_files: u64,
    /// The highest limits that a process can get for bytes in message queues, pending signals and
    /// locked bytes.
    pub(crate) queue_bytes: u64,
    pub(crate) pending_signals: u64,
    pub(crate) locked_bytes: u64,
}

/// The state of Landlock in this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Landlock {
    /// Available, in this version.
    Version(u32),
    /// The kernel is too old or was built without it.
    Missing,
    /// Built in, but not enabled at boot.
    SwitchedOff,
    /// A seccomp filter refuses it with this errno.
    Refused(i32),
}

impl Landlock {
    /// Queries the kernel.
    pub fn look() -> Landlock {
        match stockade_sys::landlock_version() {
            Ok(version) => Landlock::Version(version),
            Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::OPNOTSUPP) => Landlock::SwitchedOff,
                Some(Errno::NOSYS) | None => Landlock::Missing,
                Some(errno) => Landlock::Refused(errno.raw_os_error()),
            },
        }
    }

    /// The version to use.
    fn used(self) -> u32 {
        match self {
            Landlock::Version(version) if version >= LANDLOCK_NEEDED => version.min(LANDLOCK_KNOWN),
            _ => 0,
        }
    }
}

/// One public file or directory below `/etc`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// A directory, shown unchanged.
    Shown(PathBuf),
    /// A small file, copied.
    Copied(PathBuf),
    /// A symbolic link into the system's directories.
    SymbolicLink(SymbolicLink),
}

impl Machine {
    /// Inspects the machine without changing or starting anything.
    pub(crate) fn look() -> Machine {
        let (system, links) = system();
        let landlock_found = Landlock::look();
        let user = rustix::process::geteuid();
        Machine {
            user: user.as_raw(),
            group: rustix::process::getegid().as_raw(),
            sub_ids: match user.is_root() {
                true => None,
                false => SubIds::look(user.as_raw()).ok(),
            },
            landlock: landlock_found.used(),
            landlock_found,
            kernel: kernel_version(),
            system,
            links,
            settings: settings(),
            mounts: Mounts::look(),
            open_files: most(HardLimit::OpenFiles),
            queue_bytes: most(HardLimit::MessageQueues),
            pending_signals: most(HardLimit::PendingSignals),
            locked_bytes: most(HardLimit::LockedMemory),
        }
    }

    pub(crate) fn is_root(&self) -> bool {
        self.user == 0
    }

    /// Whether directories must be searched for host sockets, because Landlock cannot refuse
    /// connections to them.
    pub(crate) fn socket_search(&self) -> SocketSearch {
        #[cfg(feature = "weaken")]
        if !crate::weaken::searches_for_sockets() {
            return SocketSearch::NotNeeded;
        }
        match self.landlock < LANDLOCK_HOLDS_SOCKETS {
            true => SocketSearch::Needed,
            false => SocketSearch::NotNeeded,
        }
    }

    /// Whether a directory can be shown through an overlay of the sandbox. Root's layers are
    /// idmapped, which overlayfs accepts from Linux 5.19 on.
    pub(crate) fn is_separable(&self, directory: &Path) -> bool {
        let layers = !self.is_root() || self.kernel >= (5, 19);
        layers && self.mounts.is_separable(directory)
    }
}

/// The hard limit, which no process in a user namespace can raise. If the kernel does not return
/// it, the step that sets the limit fails instead.
fn most(limit: HardLimit) -> u64 {
    limit.most().unwrap_or(u64::MAX)
}

/// Files that the wall writes itself.
const MADE: [&str; 6] = [
    "/etc/passwd",
    "/etc/group",
    "/etc/hosts",
    "/etc/hostname",
    "/etc/resolv.conf",
    "/etc/nsswitch.conf",
];

fn settings() -> Vec<Setting> {
    SETTINGS.iter().filter(|path| !MADE.contains(path)).filter_map(|path| setting(path)).collect()
}

/// Whether this is Debian's configuration of Java.
fn is_of_java(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("java-") && name.ends_with("-openjdk")
}

/// Whether this is a directory that no other user than its owner may write. In a user namespace root
/// may have no number.
fn is_closed(found: &fs::Metadata) -> bool {
    found.is_dir() && found.mode() & 0o022 == 0
}

/// How to show a setting. Omits a file that leads out of the system's directories, is not
/// world-readable, or is too large to copy, and a directory of Java that others than its owner can
/// write.
fn setting(path: &str) -> Option<Setting> {
    let path = Path::new(path);
    let found = fs::symlink_metadata(path).ok()?;
    if found.is_symlink() {
        let target = fs::canonicalize(path).ok()?;
        let link = SymbolicLink { at: path.to_owned(), target: target.clone() };
        return target.starts_with("/usr").then_some(Setting::SymbolicLink(link));
    }
    let readable = found.mode() & 0o004 != 0;
    match (found.is_dir(), found.is_file()) {
        (true, _) if is_of_java(path) && !is_closed(&found) => None,
        (true, _) => Some(Setting::Shown(path.to_owned())),
        (_, true) if readable && found.len() <= MOST_COPIED => {
            Some(Setting::Copied(path.to_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn sockets_are_searched_only_if_landlock_cannot_refuse_them() {
        let search = |landlock| Machine { landlock, ..Machine::look() }.socket_search();
        let (needed, not) = (SocketSearch::Needed, SocketSearch::NotNeeded);
        assert_eq!([0, 8, 9].map(search), [needed, needed, not]);
    }

    #[test]
    fn newest_known_landlock_version_is_used() {
        let used = [2, 3, 7, 9, 10].map(|version| Landlock::Version(version).used());
        assert_eq!(used, [0, 3, 7, 9, 9]);
    }

    #[test]
    fn configuration_of_java_is_shown_if_others_cannot_write_it() {
        assert!(SETTINGS.contains(&"/etc/java-17-openjdk"), "Java finds no TLS without it");
        let folder = tempfile::tempdir().unwrap();
        for (name, mode, is_shown) in [
            ("java-17-openjdk", 0o755, true),
            ("java-21-openjdk", 0o777, false),
            ("fonts", 0o777, true),
        ] {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let expected = is_shown.then(|| Setting::Shown(path.clone()));
            assert_eq!(setting(path.to_str().unwrap()), expected, "{name}");
        }
    }
}
