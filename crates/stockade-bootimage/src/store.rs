//! The images of a user, by name.
//!
//! ```text
//! machines/NAME/  kernel  modules.cpio  root.squashfs  passwd  manifest.json  verified.json
//! ```
//! A file is hashed again whenever its stamp differs from that of the last check.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::BootImageError;
use crate::stamp::{Stamp, hash};

/// What an image consists of.
pub(crate) const KERNEL: &str = "kernel";
pub(crate) const MODULES: &str = "modules.cpio";
pub(crate) const ROOT: &str = "root.squashfs";
pub(crate) const PASSWD: &str = "passwd";
pub(crate) const MANIFEST: &str = "manifest.json";
const VERIFIED: &str = "verified.json";

/// The longest name.
const MOST_NAME: usize = 64;

/// The description of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The digest of kernel, modules and root.
    pub id: String,
    /// What the root is made of.
    pub from: String,
    /// The kernel's version, or the file that it is.
    pub kernel: String,
    /// The packages with their versions.
    pub packages: Vec<String>,
    /// When it was built, in seconds since 1970.
    pub created: i64,
    /// The size of all files.
    pub bytes: u64,
    /// The SHA-256 of each file.
    pub files: BTreeMap<String, String>,
}

/// An image of the store.
#[derive(Clone, Debug)]
pub struct BootImage {
    /// The name.
    pub name: String,
    /// The directory with its files.
    pub directory: PathBuf,
    /// What it is.
    pub manifest: Manifest,
    stamps: BTreeMap<String, Stamp>,
}

/// An image in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// The name.
    pub name: String,
    /// What it is.
    #[serde(flatten)]
    pub manifest: Manifest,
}

/// The images of one user.
#[derive(Clone, Debug)]
pub struct BootStore {
    pub(crate) directory: PathBuf,
}

/// The directory of this user's images, from environment variables.
pub fn machines_directory(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))?;
    Some(data.join("stockade/machines"))
}

impl BootStore {
    /// The store in a directory, which need not exist.
    pub fn new(directory: impl Into<PathBuf>) -> BootStore {
        BootStore { directory: directory.into() }
    }

    /// The image of a name, with every file checked.
    pub fn find(&self, name: &str) -> Result<BootImage, BootImageError> {
        let directory = self.place(name)?;
        let manifest = read_manifest(&directory, name)?;
        let image =
            BootImage { name: name.to_owned(), directory, manifest, stamps: BTreeMap::new() };
        image.verified()
    }

    /// Every image, by name.
    pub fn list(&self) -> Result<Vec<Kept>, BootImageError> {
        let failed = || BootImageError::file("read", &self.directory);
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed()(error)),
        };
        let mut kept = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed())?.file_name().to_string_lossy().into_owned();
            if !is_name(&name) {
                continue;
            }
            match read_manifest(&self.directory.join(&name), &name) {
                Ok(manifest) => kept.push(Kept { name, manifest }),
                // Another process is removing it.
                Err(BootImageError::Missing { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        kept.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(kept)
    }

    /// Removes an image, and returns its digest. Machines that run from it keep it until their end.
    pub fn remove(&self, name: &str) -> Result<String, BootImageError> {
        let directory = self.place(name)?;
        let manifest = read_manifest(&directory, name)?;
        self.discard(&directory)?;
        Ok(manifest.id)
    }

    /// Whether there is an image of this name.
    pub fn has(&self, name: &str) -> bool {
        self.place(name).is_ok_and(|place| place.join(MANIFEST).is_file())
    }

    /// The directory of a name.
    pub(crate) fn place(&self, name: &str) -> Result<PathBuf, BootImageError> {
        match is_name(name) {
            true => Ok(self.directory.join(name)),
            false => Err(BootImageError::Name { name: name.to_owned() }),
        }
    }

    /// Removes a directory of the store in one step for others, who never see half of it.
    pub(crate) fn discard(&self, directory: &Path) -> Result<(), BootImageError> {
        let gone = self.directory.join(format!(".removed-{}", std::process::id()));
        let failed = || BootImageError::file("remove", directory);
        fs::rename(directory, &gone).map_err(failed())?;
        fs::remove_dir_all(&gone).map_err(failed())
    }
}

impl BootImage {
    /// The kernel.
    pub fn kernel(&self) -> PathBuf {
        self.directory.join(KERNEL)
    }

    /// The first part of the initramfs, with the modules.
    pub fn modules(&self) -> PathBuf {
        self.directory.join(MODULES)
    }

    /// The root.
    pub fn root(&self) -> PathBuf {
        self.directory.join(ROOT)
    }

    /// The text of the root's `/etc/passwd`.
    pub fn passwd(&self) -> String {
        fs::read_to_string(self.directory.join(PASSWD)).unwrap_or_default()
    }

    /// Checks that no file has changed since [`BootStore::find`]. A file with another stamp is
    /// hashed.
    pub fn check(&self) -> Result<(), BootImageError> {
        self.clone().verified().map(|_| ())
    }

    fn verified(mut self) -> Result<BootImage, BootImageError> {
        let record = self.directory.join(VERIFIED);
        let mut known: BTreeMap<String, Stamp> = match self.stamps.is_empty() {
            // The record is only a cache: without one every file is hashed.
            true => fs::read(&record)
                .ok()
                .and_then(|text| serde_json::from_slice(&text).ok())
                .unwrap_or_default(),
            false => self.stamps.clone(),
        };
        let mut has_changed = false;
        for (name, expected) in &self.manifest.files {
            let path = self.directory.join(name);
            let failed = || BootImageError::file("read", &path);
            let stamp = Stamp::of(&path).map_err(failed())?;
            if known.get(name) == Some(&stamp) {
                continue;
            }
            let found = hash(&path).map_err(failed())?;
            if found != *expected {
                return Err(BootImageError::Changed { path, expected: expected.clone(), found });
            }
            known.insert(name.clone(), stamp);
            has_changed = true;
        }
        if has_changed && let Ok(text) = serde_json::to_vec(&known) {
            // A read-only store is hashed each time.
            let _ = fs::write(&record, text);
        }
        self.stamps = known;
        Ok(self)
    }
}

/// Whether a text can be the name of an image; names with a dot in front are the store's own.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !name.is_empty()
        && name.len() <= MOST_NAME
        && !name.starts_with(['.', '-'])
        && name.bytes().all(is_plain)
}

fn read_manifest(directory: &Path, name: &str) -> Result<Manifest, BootImageError> {
    let path = directory.join(MANIFEST);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(BootImageError::Missing { name: name.to_owned() });
        }
        Err(error) => return Err(BootImageError::file("read", path)(error)),
    };
    serde_json::from_slice(&text).map_err(|source| BootImageError::Manifest { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(name: &str, root: &[u8]) -> (tempfile::TempDir, BootStore) {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join(name);
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join(ROOT), root).unwrap();
        let manifest = Manifest {
            id: "00".to_owned(),
            from: "debian".to_owned(),
            kernel: "6.1".to_owned(),
            packages: Vec::new(),
            created: 0,
            bytes: root.len() as u64,
            files: BTreeMap::from([(ROOT.to_owned(), hash(&directory.join(ROOT)).unwrap())]),
        };
        fs::write(directory.join(MANIFEST), serde_json::to_vec(&manifest).unwrap()).unwrap();
        let store = BootStore::new(folder.path());
        (folder, store)
    }

    #[test]
    fn changed_root_is_refused_before_and_after_a_run() {
        let (_folder, store) = stored("default", b"root");
        let image = store.find("default").unwrap();
        image.check().unwrap();
        fs::write(image.root(), b"r00t").unwrap();
        assert!(matches!(image.check(), Err(BootImageError::Changed { .. })));
        assert!(matches!(store.find("default"), Err(BootImageError::Changed { .. })));
        fs::write(image.root(), b"root").unwrap();
        image.check().unwrap();
    }

    #[test]
    fn images_are_listed_and_removed_by_name() {
        let (_folder, store) = stored("default", b"root");
        let names = |store: &BootStore| {
            store.list().unwrap().into_iter().map(|kept| kept.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&store), ["default"]);
        assert!(matches!(store.find("other"), Err(BootImageError::Missing { .. })));
        store.remove("default").unwrap();
        assert_eq!(names(&store), [""; 0]);
    }

    #[test]
    fn name_that_leads_elsewhere_is_refused() {
        let store = BootStore::new("/nonexistent");
        for name in ["", ".", "..", "../x", "a/b", "-x", ".hidden", "a b", &"x".repeat(65)] {
            let refused = store.find(name);
            assert!(matches!(refused, Err(BootImageError::Name { .. })), "{name}");
        }
    }
}
