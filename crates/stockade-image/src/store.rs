//! The images of a user: one directory per image, named by its digest.
//!
//! ```text
//! STORE/lock                 held while an image is imported, named or removed
//! STORE/names.json           names and the digests that they mean
//! STORE/images/.new          an import that is not complete; the next one removes it
//! STORE/images/HEX/config    the image's configuration, whose digest is HEX
//! STORE/images/HEX/facts     what the import counted
//! STORE/images/HEX/lock      held by every sandbox that uses the image
//! STORE/images/HEX/root      its files
//! ```
//! A directory with a digest as its name is complete: it was renamed when everything was written.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, ResolveFlags, flock, openat2, syncfs};
use rustix::io::Errno;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::model::{Configuration, MOST_DOCUMENT, document};
use crate::{Digest, ImageConfig, ImageError, Reference, above, tree};

const NEW: &str = ".new";
const GONE: &str = ".gone";
/// The least digits of a digest that find an image.
const LEAST_DIGITS: usize = 12;

/// Where the images of a user are: `stockade/images` in `XDG_DATA_HOME`, else in `.local/share` in
/// the home. `None` without a home.
pub fn store_directory(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = path("XDG_DATA_HOME").or_else(|| Some(path("HOME")?.join(".local/share")))?;
    Some(data.join("stockade").join("images"))
}

/// The images of a user.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    images: PathBuf,
}

/// What an import counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Facts {
    pub(crate) bytes: u64,
    pub(crate) layers: usize,
}

/// An image of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The digest of its configuration.
    pub id: String,
    /// Its names.
    pub names: Vec<String>,
    /// The size of its layers without compression.
    pub bytes: u64,
    /// How many layers it has, if this is known.
    pub layers: Option<usize>,
    /// When it was made, in seconds since 1970.
    pub created: Option<i64>,
}

/// A name in an archive that stayed with another image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Taken {
    /// The name.
    pub name: String,
    /// The digest of the image that has it.
    pub id: String,
}

/// Where the names of an import come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedBy {
    /// Another image loses the name.
    Caller,
    /// Another image keeps the name: an archive must not replace what the user runs by it.
    Archive,
}

/// An image for a sandbox. It is not removed while this value lives.
#[derive(Debug)]
pub struct Found {
    /// Its digest.
    pub id: Digest,
    /// Its files.
    pub root: PathBuf,
    /// Its settings for its own program.
    pub config: ImageConfig,
    /// Keeps it in the store.
    pub held: Held,
}

/// Keeps an image in the store until it is dropped.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "the open file holds the lock")] File);

/// The lock of the whole store.
pub(crate) struct Lock(#[expect(dead_code, reason = "the open file holds the lock")] File);

/// An import that is not complete. Dropping it removes it.
pub(crate) struct New<'s> {
    store: &'s Store,
    directory: PathBuf,
}

impl Store {
    /// Opens the store, and creates it if it is missing. Refuses one that another user could
    /// change.
    pub fn open(directory: &Path) -> Result<Store, ImageError> {
        above::check(directory)?;
        private(DirBuilder::new().recursive(true), directory)?;
        // Links above it may lead elsewhere. From here on there are none.
        let directory = directory.canonicalize().map_err(file("find", directory))?;
        above::check(&directory)?;
        let images = directory.join("images");
        private(&mut DirBuilder::new(), &images)?;
        Ok(Store { directory, images })
    }

    /// Opens the store if it exists.
    pub fn existing(directory: &Path) -> Result<Option<Store>, ImageError> {
        match directory.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            _ => Store::open(directory).map(Some),
        }
    }

    /// Every image, by its first name.
    pub fn list(&self) -> Result<Vec<Listed>, ImageError> {
        let mut listed = Vec::new();
        for entry in fs::read_dir(&self.images).map_err(file("read", &self.images))? {
            let entry = entry.map_err(file("read", &self.images))?;
            let name = entry.file_name();
            let digest = name.to_str().and_then(Digest::from_hex);
            match digest {
                Some(digest) => listed.push(self.listed(digest)?),
                None if name == NEW || name == GONE => {}
                None => {
                    let reason = "it is not an image".to_owned();
                    return Err(ImageError::Corrupt { path: entry.path(), reason });
                }
            }
        }
        listed.sort_by(|one, other| (&one.names, &one.id).cmp(&(&other.names, &other.id)));
        Ok(listed)
    }

    /// The image of a name, a digest, or at least twelve of its digits.
    pub fn find(&self, wanted: &str) -> Result<Found, ImageError> {
        let missing = || ImageError::Missing {
            reference: wanted.escape_debug().take(300).collect(),
            store: self.directory.clone(),
        };
        let id = self.resolve(wanted)?.ok_or_else(missing)?;
        let directory = self.images.join(id.hex());
        let path = directory.join("lock");
        let lock = match open_lock(&path) {
            Err(ImageError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Err(missing());
            }
            lock => lock?,
        };
        match flock(&lock, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => return Err(missing()),
            locked => locked.map_err(|errno| file("lock", &path)(errno.into()))?,
        }
        // `remove` may have renamed the directory since the file was opened.
        let number = |found: io::Result<fs::Metadata>| found.map(|it| it.ino()).ok();
        if number(lock.metadata()) != number(fs::symlink_metadata(&path)) {
            return Err(missing());
        }
        let config = ImageConfig::of(&self.configuration(id)?);
        let root = directory.join("root");
        let root = root.canonicalize().map_err(file("find", &root))?;
        Ok(Found { id, root, config, held: Held(lock) })
    }

    /// Removes a name and, with its last name or by its digest, the image.
    pub fn remove(&self, wanted: &str) -> Result<Digest, ImageError> {
        let lock = self.lock()?;
        let missing = || ImageError::Missing {
            reference: wanted.escape_debug().take(300).collect(),
            store: self.directory.clone(),
        };
        let id = self.resolve(wanted)?.ok_or_else(missing)?;
        let mut names = self.names()?;
        if let Ok(name) = Reference::parse(wanted)
            && names.remove(name.as_str()).is_some()
            && names.values().any(|digest| *digest == id.to_string())
        {
            self.write_names(&names)?;
            return Ok(id);
        }
        let directory = self.images.join(id.hex());
        let path = directory.join("lock");
        let held = open_lock(&path)?;
        match flock(&held, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                return Err(ImageError::InUse { reference: wanted.to_owned() });
            }
            locked => locked.map_err(|errno| file("lock", &path)(errno.into()))?,
        }
        names.retain(|_, digest| *digest != id.to_string());
        self.write_names(&names)?;
        let gone = self.images.join(GONE);
        self.clear(GONE)?;
        fs::rename(&directory, &gone).map_err(file("remove", &directory))?;
        self.clear(GONE)?;
        drop(lock);
        Ok(id)
    }

    /// The text of the image's `/etc/passwd`; empty if it has none.
    pub fn passwd(found: &Found) -> Result<String, ImageError> {
        const MOST: u64 = 1 << 20;
        let path = found.root.join("etc/passwd");
        let root = File::open(&found.root).map_err(file("open", &found.root))?;
        let below = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = match openat2(&root, "etc/passwd", flags, Mode::empty(), below) {
            Ok(opened) => File::from(opened),
            Err(Errno::NOENT) => return Ok(String::new()),
            Err(errno) => return Err(file("open", &path)(errno.into())),
        };
        let mut text = Vec::new();
        opened.take(MOST).read_to_end(&mut text).map_err(file("read", &path))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    pub(crate) fn lock(&self) -> Result<Lock, ImageError> {
        let path = self.directory.join("lock");
        let lock = open_lock(&path)?;
        flock(&lock, FlockOperation::LockExclusive)
            .map_err(|errno| file("lock", &path)(errno.into()))?;
        Ok(Lock(lock))
    }

    pub(crate) fn has(&self, id: Digest) -> bool {
        self.images.join(id.hex()).is_dir()
    }

    /// Begins an import. What a killed one left is removed.
    pub(crate) fn begin(&self, _lock: &Lock) -> Result<New<'_>, ImageError> {
        self.clear(NEW)?;
        let directory = self.images.join(NEW);
        let make = |path: &Path, mode| {
            DirBuilder::new().mode(0o700).create(path).map_err(file("create", path))?;
            // The umask may have narrowed it.
            fs::set_permissions(path, fs::Permissions::from_mode(mode))
                .map_err(file("create", path))
        };
        make(&directory, 0o700)?;
        let new = New { store: self, directory };
        make(&new.root(), 0o755)?;
        Ok(new)
    }

    /// Adds names to an image. Returns those that stayed with other images.
    pub(crate) fn name(
        &self,
        _lock: &Lock,
        id: Digest,
        added: &BTreeSet<Reference>,
        by: NamedBy,
    ) -> Result<Vec<Taken>, ImageError> {
        let mut names = self.names()?;
        let mut taken = Vec::new();
        for name in added {
            let name = name.as_str().to_owned();
            let other = names.get(&name).and_then(|text| Digest::parse(text).ok());
            match other.filter(|other| *other != id && self.has(*other)) {
                Some(other) if by == NamedBy::Archive => {
                    taken.push(Taken { name, id: other.to_string() });
                }
                _ => drop(names.insert(name, id.to_string())),
            }
        }
        self.write_names(&names)?;
        Ok(taken)
    }

    pub(crate) fn listed(&self, id: Digest) -> Result<Listed, ImageError> {
        let path = self.images.join(id.hex()).join("facts");
        let facts: Facts = parsed(&path, &read(&path)?)?;
        let names = self.names()?.into_iter();
        let names = names.filter(|(_, digest)| *digest == id.to_string()).map(|(name, _)| name);
        let created = ImageConfig::of(&self.configuration(id)?).created;
        let Facts { bytes, layers } = facts;
        let layers = Some(layers);
        Ok(Listed { id: id.to_string(), names: names.collect(), bytes, layers, created })
    }

    fn configuration(&self, id: Digest) -> Result<Configuration, ImageError> {
        let path = self.images.join(id.hex()).join("config");
        let text = read(&path)?;
        if Digest::of(&text) != id {
            let reason = "its digest is not its name".to_owned();
            return Err(ImageError::Corrupt { path, reason });
        }
        let corrupt = |reason: String| ImageError::Corrupt { path: path.clone(), reason };
        document(&text).map_err(|refusal| corrupt(refusal.to_string()))
    }

    fn resolve(&self, wanted: &str) -> Result<Option<Digest>, ImageError> {
        let digits = wanted.strip_prefix("sha256:").unwrap_or(wanted);
        let is_hex =
            digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if is_hex && digits.len() >= LEAST_DIGITS {
            let all = self.list()?.into_iter().filter_map(|it| Digest::parse(&it.id).ok());
            let mut all = all.filter(|digest| digest.hex().starts_with(digits));
            match (all.next(), all.next()) {
                (Some(one), None) => return Ok(Some(one)),
                (Some(_), Some(_)) => {
                    return Err(ImageError::Ambiguous { reference: wanted.to_owned() });
                }
                (None, _) if wanted.starts_with("sha256:") => return Ok(None),
                (None, _) => {}
            }
        }
        let name = Reference::parse(wanted)?;
        let names = self.names()?;
        let Some(text) = names.get(name.as_str()) else { return Ok(None) };
        Ok(Digest::parse(text).ok().filter(|id| self.has(*id)))
    }

    fn names(&self) -> Result<BTreeMap<String, String>, ImageError> {
        let path = self.directory.join("names.json");
        match read(&path) {
            Err(ImageError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(BTreeMap::new())
            }
            text => parsed(&path, &text?),
        }
    }

    fn write_names(&self, names: &BTreeMap<String, String>) -> Result<(), ImageError> {
        let (path, new) = (self.directory.join("names.json"), self.directory.join("names.new"));
        let text = json(&path, names)?;
        // A longer text could not be read again, and then no image would be found.
        if text.len() as u64 > MOST_DOCUMENT {
            return Err(ImageError::Full { store: self.directory.clone() });
        }
        write(&new, &text)?;
        fs::rename(&new, &path).map_err(file("write", &path))
    }

    fn clear(&self, name: &str) -> Result<(), ImageError> {
        let images = File::open(&self.images).map_err(file("open", &self.images))?;
        tree::remove(images.as_fd(), OsStr::new(name))
            .map_err(|errno| file("remove", &self.images.join(name))(errno.into()))
    }
}

impl New<'_> {
    pub(crate) fn root(&self) -> PathBuf {
        self.directory.join("root")
    }

    pub(crate) fn failed(
        &self,
        doing: &'static str,
    ) -> impl FnOnce(io::Error) -> ImageError + use<> {
        file(doing, &self.directory)
    }

    /// Makes the import an image of the store.
    pub(crate) fn finish(self, id: Digest, config: &[u8], facts: &Facts) -> Result<(), ImageError> {
        write(&self.directory.join("config"), config)?;
        let path = self.directory.join("facts");
        write(&path, &json(&path, facts)?)?;
        write(&self.directory.join("lock"), b"")?;
        let root = File::open(self.root()).map_err(file("open", &self.directory))?;
        // After a loss of power the name must not stand for files that were never written.
        syncfs(&root).map_err(|errno| file("write", &self.directory)(errno.into()))?;
        let complete = self.store.images.join(id.hex());
        fs::rename(&self.directory, &complete).map_err(file("complete", &complete))
    }
}

impl Drop for New<'_> {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next import.
        let _ = self.store.clear(NEW);
    }
}

fn write(path: &Path, content: &[u8]) -> Result<(), ImageError> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
    let mut opened = options.open(path).map_err(file("create", path))?;
    opened.write_all(content).map_err(file("write", path))
}

/// A value as the text of a file. An error must not become an empty file, which no later call could
/// read.
fn json(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, ImageError> {
    serde_json::to_vec(value).map_err(|error| file("write", path)(error.into()))
}

fn read(path: &Path) -> Result<Vec<u8>, ImageError> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
    let mut text = Vec::new();
    let mut opened = opened.map_err(file("read", path))?.take(MOST_DOCUMENT + 1);
    opened.read_to_end(&mut text).map_err(file("read", path))?;
    Ok(text)
}

fn parsed<T: serde::de::DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, ImageError> {
    let corrupt = |error: serde_json::Error| ImageError::Corrupt {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    serde_json::from_slice(text).map_err(corrupt)
}

fn open_lock(path: &Path) -> Result<File, ImageError> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(flags.bits() as i32);
    // Only the store's own lock may be missing: that of an image came with it.
    options.create(path.parent().is_some_and(|above| above.join("images").is_dir()));
    options.open(path).map_err(file("open", path))
}

/// Creates a directory of the caller alone, if it is missing.
fn private(builder: &mut DirBuilder, path: &Path) -> Result<(), ImageError> {
    match builder.mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(file("create", path)(error))
        }
        _ => check(path),
    }
}

/// Refuses a directory that is a link, belongs to another user, or that others can enter.
fn check(path: &Path) -> Result<(), ImageError> {
    let found = fs::symlink_metadata(path).map_err(file("read", path))?;
    let refused = |reason| Err(ImageError::Unsafe { path: path.to_owned(), reason });
    if found.is_symlink() {
        return refused("it is a symbolic link");
    }
    if !found.is_dir() {
        return refused("it is not a directory");
    }
    if found.uid() != geteuid().as_raw() {
        return refused("it belongs to another user");
    }
    if found.mode() & 0o077 != 0 {
        return refused("other users can enter it");
    }
    Ok(())
}

fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ImageError + use<> {
    let path = path.to_owned();
    move |source| ImageError::File { doing, path, source }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
