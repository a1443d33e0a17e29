//! The state of sessions on disk: one directory per session, which only its owner can open.
//!
//! ```text
//! STATE/lock                    held while a session is named or swept
//! STATE/sessions/NAME/lock      held by the supervisor as long as it lives
//! STATE/sessions/NAME/session   the session's supervisor and start, as JSON, before it exists
//! STATE/sessions/NAME/socket    where the supervisor listens
//! ```
//! A session whose lock is free has no supervisor: its sandbox ended with that process, and the
//! next use of the state removes the directory.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

/// The maximum size of a session's file.
const MOST_BYTES: u64 = 64 << 10;

/// The files of a session's directory.
const FILES: [&str; 3] = ["socket", "session", "lock"];

/// The name of a session: letters, digits, `_`, `.` and `-`, at most 63, not starting with a sign.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionName(String);

impl SessionName {
    /// Checks a name.
    pub fn parse(text: &str) -> Result<SessionName, StateError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let begins_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        match begins_well && text.len() <= 63 && text.chars().all(is_plain) {
            true => Ok(SessionName(text.to_owned())),
            false => Err(StateError::Name { name: text.to_owned() }),
        }
    }

    /// A random name.
    pub fn random() -> io::Result<SessionName> {
        let bytes: [u8; 4] = stockade_sys::random_bytes()?;
        Ok(SessionName(format!("session-{:08x}", u32::from_le_bytes(bytes))))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why the state of sessions cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Not a valid name.
    #[error("{name:?} is not a valid name of a session")]
    Name {
        /// The text.
        name: String,
    },
    /// A session with that name exists.
    #[error("a session named {name} exists already")]
    Taken {
        /// The name.
        name: String,
    },
    /// No session has that name.
    #[error("there is no session named {name}")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The directory does not belong to the caller alone.
    #[error("refusing the directory of sessions {}: {reason}", path.display())]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The directory contains something that Stockade did not write.
    #[error("the state of sessions is corrupt: {}: {reason}", path.display())]
    Corrupt {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file operation failed.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// The operation.
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl StateError {
    /// Advice for the user.
    pub fn remedy(&self) -> String {
        match self {
            StateError::Name { .. } => {
                "use letters, digits, `_`, `.` and `-`, at most 63 of them".to_owned()
            }
            StateError::Taken { name } => {
                format!("choose another name, or end it with `stockade rm -f {name}`")
            }
            StateError::Unknown { .. } => "list the sessions with `stockade ls`".to_owned(),
            StateError::Unsafe { path, .. } => format!(
                "look at it, then move {} away or name another directory in STOCKADE_STATE",
                path.display()
            ),
            StateError::Corrupt { path, .. } => {
                format!("look at it, then remove {}", path.display())
            }
            StateError::File { .. } => {
                "see that the directory exists and belongs to you, or name another in STOCKADE_STATE"
                    .to_owned()
            }
        }
    }
}

/// Where the sessions of a user are: `STOCKADE_STATE`, `/run/stockade` for root, `stockade` in
/// `XDG_RUNTIME_DIR`, or `.local/state/stockade/running` in the home, next to the records in
/// `.local/state/stockade/sessions`.
pub fn state_directory(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> PathBuf {
    let path = |name: &str| {
        let value = variable(name).map(PathBuf::from);
        value.filter(|path| path.is_absolute())
    };
    if let Some(named) = path("STOCKADE_STATE") {
        return named;
    }
    if geteuid().is_root() {
        return PathBuf::from("/run/stockade");
    }
    let runtime = path("XDG_RUNTIME_DIR").map(|directory| directory.join("stockade"));
    let home = || path("HOME").map(|home| home.join(".local/state/stockade/running"));
    let last = || PathBuf::from(format!("/tmp/stockade-{}-state", geteuid().as_raw()));
    runtime.or_else(home).unwrap_or_else(last)
}

/// The directory of all sessions of this user.
#[derive(Debug)]
pub struct State {
    sessions: PathBuf,
    lock: PathBuf,
}

/// A name that belongs to this process until the value is dropped.
#[derive(Debug)]
pub struct Claimed {
    /// The name.
    pub name: SessionName,
    directory: PathBuf,
    _lock: File,
}

/// A session as its directory describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// The process that holds it.
    pub supervisor: u32,
    /// When it was created, in seconds since 1970.
    pub created: u64,
}

impl State {
    /// Opens the directory, and creates it if it is missing. Refuses one that another user could
    /// change.
    pub fn open(directory: &Path) -> Result<State, StateError> {
        let sessions = directory.join("sessions");
        for path in [directory, &sessions] {
            let made = DirBuilder::new().recursive(path == directory).mode(0o700).create(path);
            match made {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(file("create", path)(error));
                }
                _ => check(path)?,
            }
        }
        Ok(State { sessions, lock: directory.join("lock") })
    }

    /// Claims a name for this process, which will hold the session, and writes its state.
    pub fn claim(&self, name: &SessionName, created: u64) -> Result<Claimed, StateError> {
        let _all = self.lock()?;
        self.sweep()?;
        let directory = self.sessions.join(name.as_str());
        match DirBuilder::new().mode(0o700).create(&directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(StateError::Taken { name: name.0.clone() });
            }
            made => made.map_err(file("create", &directory))?,
        }
        let path = directory.join("lock");
        let lock = open_lock(&path)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|errno| file("lock", &path)(errno.into()))?;
        let listed = Listed { name: name.0.clone(), supervisor: std::process::id(), created };
        let path = directory.join("session");
        let text =
            serde_json::to_vec(&listed).map_err(|error| file("write", &path)(error.into()))?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut session = options.open(&path).map_err(file("create", &path))?;
        session.write_all(&text).map_err(file("write", &path))?;
        Ok(Claimed { name: name.clone(), directory, _lock: lock })
    }

    /// All sessions that have a supervisor, by name. Removes what dead supervisors left.
    pub fn list(&self) -> Result<Vec<Listed>, StateError> {
        let _all = self.lock()?;
        self.sweep()
    }

    /// The socket of a session. Looks only at that session: each execution needs it, however many
    /// sessions there are.
    pub fn socket(&self, name: &SessionName) -> Result<PathBuf, StateError> {
        let _all = self.lock()?;
        let unknown = || StateError::Unknown { name: name.0.clone() };
        let named = self.directories()?.into_iter().find(|(_, found)| found == &name.0);
        let (path, found) = named.ok_or_else(unknown)?;
        look(&path, &found)?.ok_or_else(unknown)?;
        Ok(path.join("socket"))
    }

    fn lock(&self) -> Result<File, StateError> {
        let lock = open_lock(&self.lock)?;
        flock(&lock, FlockOperation::LockExclusive)
            .map_err(|errno| file("lock", &self.lock)(errno.into()))?;
        Ok(lock)
    }

    fn sweep(&self) -> Result<Vec<Listed>, StateError> {
        let mut listed = Vec::new();
        for (path, name) in self.directories()? {
            listed.extend(look(&path, &name)?);
        }
        listed.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(listed)
    }

    /// The directories of all sessions with their names, which are all that is checked.
    fn directories(&self) -> Result<Vec<(PathBuf, String)>, StateError> {
        let entries = fs::read_dir(&self.sessions).map_err(file("read", &self.sessions))?;
        let named = |entry: io::Result<fs::DirEntry>| {
            let path = entry.map_err(file("read", &self.sessions))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let name = name.ok_or_else(|| corrupt(&path, "its name is not text"))?.to_owned();
            match SessionName::parse(&name) {
                Ok(_) => Ok((path, name)),
                Err(_) => Err(corrupt(&path, "its name is not that of a session")),
            }
        };
        entries.map(named).collect()
    }
}

/// The session of a directory. Removes the directory if its supervisor is dead. A session that ends
/// removes its directory meanwhile, without the lock of the state.
fn look(path: &Path, name: &str) -> Result<Option<Listed>, StateError> {
    match look_into(path, name) {
        Err(StateError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(None)
        }
        looked => looked,
    }
}

fn look_into(path: &Path, name: &str) -> Result<Option<Listed>, StateError> {
    check(path)?;
    let lock = open_lock(&path.join("lock"))?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => remove(path).map(|()| None),
        Err(Errno::WOULDBLOCK) => match read(&path.join("session"))? {
            session if session.name == name => Ok(Some(session)),
            _ => Err(corrupt(path, "its file names another session")),
        },
        Err(errno) => Err(file("lock", path)(errno.into())),
    }
}

fn corrupt(path: &Path, reason: &str) -> StateError {
    StateError::Corrupt { path: path.to_owned(), reason: reason.to_owned() }
}

impl Claimed {
    /// Listens on the session's socket.
    pub fn listen(&self) -> Result<std::os::unix::net::UnixListener, StateError> {
        let path = self.directory.join("socket");
        through_descriptor(&path, |path| std::os::unix::net::UnixListener::bind(path))
            .map_err(file("listen on", &path))
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        // What cannot be removed now is swept by the next use of the state.
        let _ = remove(&self.directory);
    }
}

/// Uses a socket by a path through a descriptor of its directory: a socket's path has at most 107
/// bytes, unix(7).
pub(crate) fn through_descriptor<T>(
    path: &Path,
    act: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(directory, flags, rustix::fs::Mode::empty())?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    act(&short.join(name))
}

/// Removes the directory of a session. It has only known files.
fn remove(directory: &Path) -> Result<(), StateError> {
    for name in FILES {
        let path = directory.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(file("remove", &path))?,
        }
    }
    match fs::remove_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
            let reason = "it contains a file that Stockade did not write".to_owned();
            Err(StateError::Corrupt { path: directory.to_owned(), reason })
        }
        removed => removed.map_err(file("remove", directory)),
    }
}

fn read(path: &Path) -> Result<Listed, StateError> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
    let opened = opened.map_err(file("read", path))?;
    let corrupt = |reason: String| StateError::Corrupt { path: path.to_owned(), reason };
    if !opened.metadata().is_ok_and(|found| found.is_file()) {
        return Err(corrupt("it is not a file".to_owned()));
    }
    let mut text = String::new();
    opened.take(MOST_BYTES).read_to_string(&mut text).map_err(file("read", path))?;
    serde_json::from_str(&text).map_err(|error| corrupt(error.to_string()))
}

fn open_lock(path: &Path) -> Result<File, StateError> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(flags.bits() as i32).open(path).map_err(file("open", path))
}

/// Refuses a directory that is a link, belongs to another user, or that others can write to.
fn check(path: &Path) -> Result<(), StateError> {
    let found = fs::symlink_metadata(path).map_err(file("read", path))?;
    let refused = |reason| Err(StateError::Unsafe { path: path.to_owned(), reason });
    if found.is_symlink() {
        return refused("it is a symbolic link");
    }
    if !found.is_dir() {
        return refused("it is not a directory");
    }
    if found.uid() != geteuid().as_raw() {
        return refused("it belongs to another user");
    }
    if found.mode() & 0o022 != 0 {
        return refused("other users can write to it");
    }
    Ok(())
}

fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StateError {
    let path = path.to_owned();
    move |source| StateError::File { doing, path, source }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
