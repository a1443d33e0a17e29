//! Where records are stored.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::directory::Directory;

/// The name of Stockade's own directory, and of the directory for records in it.
const PRODUCT: &str = "stockade";
const SESSIONS: &str = "sessions";

/// A directory for records: the last components of its path belong only to this user, and are
/// created if they are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordDirectory {
    /// The path above them; links in it are followed.
    pub(crate) base: PathBuf,
    /// The components below it, each a directory that only its owner may enter.
    pub(crate) own: Vec<OsString>,
    /// Whether the user named it: then it may belong to another user when it is read.
    pub(crate) is_named: bool,
}

/// Why a place cannot store records.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The path does not end in a name.
    #[error("{} does not name a directory", path.display())]
    NoName {
        /// The path.
        path: PathBuf,
    },
    /// It cannot be created.
    #[error("cannot make the directory {}", path.display())]
    Make {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be opened.
    #[error("cannot open the directory {}", path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is a link or a file.
    #[error("{} is a link or no directory", path.display())]
    NoDirectory {
        /// The path.
        path: PathBuf,
    },
    /// It belongs to another user.
    #[error("{} belongs to user {owner}, not to user {user}", path.display())]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The current user.
        user: u32,
    },
    /// Others may enter it.
    #[error("{} can be entered or changed by others: its mode is {mode:04o}", path.display())]
    OpenToOthers {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
}

impl PlaceError {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        let elsewhere = "name another directory with --record DIR";
        match self {
            PlaceError::NoName { .. } => elsewhere.to_owned(),
            PlaceError::Make { .. } | PlaceError::Open { .. } => {
                format!("see that you may write there, or {elsewhere}")
            }
            PlaceError::NoDirectory { .. } => format!("remove it, or {elsewhere}"),
            PlaceError::NotOurs { .. } => elsewhere.to_owned(),
            // Closing a directory that others use would break the host.
            PlaceError::OpenToOthers { path, mode } if mode & STICKY != 0 || is_shared(path) => {
                elsewhere.to_owned()
            }
            PlaceError::OpenToOthers { path, .. } => {
                format!("close it with `chmod 700 {}`, or {elsewhere}", path.display())
            }
        }
    }

    /// Whether another user created something there, so that it cannot contain records of this
    /// user.
    pub fn is_somebody_elses(&self) -> bool {
        matches!(self, PlaceError::NotOurs { .. } | PlaceError::NoDirectory { .. })
    }

    /// Whether the place is only missing or not writable, so that the next place may work.
    pub(crate) fn is_absence(&self) -> bool {
        let (PlaceError::Make { source, .. } | PlaceError::Open { source, .. }) = self else {
            return false;
        };
        use io::ErrorKind as Kind;
        matches!(
            source.kind(),
            Kind::NotFound
                | Kind::NotADirectory
                | Kind::PermissionDenied
                | Kind::ReadOnlyFilesystem
        )
    }
}

/// The mode bit of directories such as `/tmp`, in which every user has files.
const STICKY: u32 = 0o1000;

/// Whether a directory is part of the system, or one in which users keep everything.
fn is_shared(path: &Path) -> bool {
    const SYSTEM: [&str; 12] = [
        "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin",
        "/sys", "/usr",
    ];
    let names = path.components().filter(|part| matches!(part, Component::Normal(_))).count();
    let is_early =
        names < 2 || (names == 2 && ["/home", "/var"].iter().any(|it| path.starts_with(it)));
    is_early || SYSTEM.iter().any(|system| path.starts_with(system))
}

impl RecordDirectory {
    /// A directory that the user named by an absolute path.
    pub fn named(path: &Path) -> Result<RecordDirectory, PlaceError> {
        let no_name = || PlaceError::NoName { path: path.to_owned() };
        let name = path.file_name().ok_or_else(no_name)?.to_owned();
        let base = path.parent().ok_or_else(no_name)?.to_owned();
        if base.components().any(|part| part == Component::ParentDir) || !base.is_absolute() {
            return Err(no_name());
        }
        Ok(RecordDirectory { base, own: vec![name], is_named: true })
    }

    /// Its path.
    pub fn path(&self) -> PathBuf {
        self.base.join(self.own.iter().collect::<PathBuf>())
    }
}

/// The places for the records of a user, in order of preference: the user's state directory, and
/// for a user without a home directory a directory in `/tmp`.
pub fn default_places(
    variable: impl Fn(&str) -> Option<OsString>,
    user: u32,
) -> Vec<RecordDirectory> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || absolute("HOME").map(|home| home.join(".local/state"));
    let state = absolute("XDG_STATE_HOME").or_else(home);
    let place = |base, own| RecordDirectory { base, own, is_named: false };
    let kept = state.map(|base| place(base, vec![PRODUCT.into(), SESSIONS.into()]));
    let own = vec![format!("{PRODUCT}-{user}").into(), SESSIONS.into()];
    let passing = place(PathBuf::from("/tmp"), own);
    kept.into_iter().chain([passing]).collect()
}

/// The first of some places that exists or can be created. An existing place that is open to others
/// is refused and not skipped.
pub fn settle(places: &[RecordDirectory]) -> Result<RecordDirectory, PlaceError> {
    settled(places).map(|(place, _)| place.clone())
}

/// The first usable place, open.
pub(crate) fn settled(
    places: &[RecordDirectory],
) -> Result<(&RecordDirectory, Directory), PlaceError> {
    let mut last = PlaceError::NoName { path: PathBuf::new() };
    for place in places {
        match Directory::open_or_make(place) {
            Ok(directory) => return Ok((place, directory)),
            Err(error) if error.is_absence() => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(variables: &[(&str, &str)]) -> Vec<PathBuf> {
        let find = |name: &str| variables.iter().find(|(key, _)| *key == name);
        let variable = |name: &str| find(name).map(|(_, value)| value.into());
        default_places(variable, 7).iter().map(RecordDirectory::path).collect()
    }

    #[test]
    fn records_go_to_the_users_state_directory_or_to_tmp_without_a_home() {
        let passing = Path::new("/tmp/stockade-7/sessions");
        let home = [Path::new("/h/.local/state/stockade/sessions"), passing];
        assert_eq!(paths(&[("HOME", "/h")]), home);
        let state = [Path::new("/s/stockade/sessions"), passing];
        assert_eq!(paths(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s")]), state);
        assert_eq!(paths(&[("HOME", "/h"), ("XDG_STATE_HOME", "relative")]), home);
        assert_eq!(paths(&[("HOME", "")]), [passing]);
    }

    #[test]
    fn no_remedy_closes_a_directory_that_others_use() {
        let remedy =
            |path: &str, mode| PlaceError::OpenToOthers { path: path.into(), mode }.remedy();
        let own = remedy("/srv/agents/records", 0o755);
        assert!(own.starts_with("close it with `chmod 700 /srv/agents/records`"), "{own}");
        for (path, mode) in [
            ("/tmp", 0o1777),
            ("/srv/agents/drop", 0o1777),
            ("/", 0o755),
            ("/srv", 0o755),
            ("/home/ada", 0o755),
            ("/var/log", 0o755),
            ("/etc/stockade", 0o755),
            ("/usr/share/x", 0o755),
        ] {
            assert_eq!(remedy(path, mode), "name another directory with --record DIR", "{path}");
        }
    }

    #[test]
    fn named_place_is_one_directory_of_an_absolute_path() {
        assert_eq!(RecordDirectory::named(Path::new("/a/b/")).unwrap().path(), Path::new("/a/b"));
        for path in ["/", "/a/..", "a", "/a/../b", ""] {
            assert!(RecordDirectory::named(Path::new(path)).is_err(), "{path}");
        }
    }
}
