//! The state of the host that must be the same after all probes as before.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::bench::Bench;

/// Bytes and inodes that other processes of the host may use in the meantime.
const FREE_BYTES: u64 = 8 << 30;
const FREE_INODES: u64 = 1 << 20;

/// Kernel settings that code inside might try to change.
const SETTINGS: [&str; 8] = [
    "kernel/core_pattern",
    "kernel/hostname",
    "kernel/shmmax",
    "kernel/msgmax",
    "kernel/panic",
    "vm/overcommit_memory",
    "fs/mqueue/msg_max",
    "user/max_user_namespaces",
];

/// A snapshot of the host, as named values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Host {
    /// Values that must stay the same.
    values: BTreeMap<String, String>,
    /// Objects that must not be added.
    things: BTreeSet<String>,
    free_bytes: u64,
    free_inodes: u64,
}

impl Host {
    /// Takes a snapshot of the host and of the bench's folders that no probe may change.
    pub(crate) fn look(bench: &Bench) -> Host {
        let read = |path: String| text(fs::read_to_string(path));
        let mut host = Host::default();
        for name in SETTINGS {
            host.values.insert(format!("setting {name}"), read(format!("/proc/sys/{name}")));
        }
        for name in ["home", "shown", "public", "public-2", "public-3", "probe", "locked"] {
            let mut hasher = DefaultHasher::new();
            digest(Path::new(&bench.names[name]), &mut hasher);
            host.values.insert(format!("files of {name}"), hasher.finish().to_string());
        }
        let mounts = read("/proc/self/mountinfo".to_owned());
        host.things.extend(mounts.lines().map(|line| format!("mount {line}")));
        let links = read("/proc/net/dev".to_owned());
        let names = links.lines().filter_map(|line| line.split_once(':'));
        host.things.extend(names.map(|(name, _)| format!("link {}", name.trim())));
        cgroups(Path::new("/sys/fs/cgroup"), 5, &mut host.things);
        host.things.extend(processes(&bench.inputs.place));
        let descriptors = fs::read_dir("/proc/self/fd").into_iter().flatten().count();
        host.values.insert("descriptors of the harness".to_owned(), descriptors.to_string());
        if let Ok(free) = rustix::fs::statvfs(&bench.inputs.place) {
            host.free_bytes = free.f_bavail * free.f_frsize;
            host.free_inodes = free.f_favail;
        }
        host
    }

    /// The differences to now. Cleanup continues after a run has returned, so a difference counts
    /// only if it is still there after `patience`.
    pub(crate) fn changed_since(&self, bench: &Bench, patience: Duration) -> Vec<String> {
        let began = Instant::now();
        let mut stayed = self.changed(&Host::look(bench));
        while !stayed.is_empty() && began.elapsed() < patience {
            std::thread::park_timeout(Duration::from_millis(50));
            let now = self.changed(&Host::look(bench));
            stayed.retain(|difference| now.contains(difference));
        }
        stayed
    }

    fn changed(&self, now: &Host) -> Vec<String> {
        let mut changed: Vec<String> = now.things.difference(&self.things).cloned().collect();
        let other = |(name, value): (&String, &String)| {
            (self.values.get(name) != Some(value)).then(|| name.clone())
        };
        changed.extend(now.values.iter().filter_map(other));
        if self.free_bytes.saturating_sub(now.free_bytes) > FREE_BYTES {
            changed.push("free space of the disk".to_owned());
        }
        if self.free_inodes.saturating_sub(now.free_inodes) > FREE_INODES {
            changed.push("free inodes of the disk".to_owned());
        }
        changed
    }
}

/// Hashes names, types, owners and contents below a path. An unreadable file is hashed as
/// unreadable.
fn digest(path: &Path, hasher: &mut DefaultHasher) {
    path.hash(hasher);
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) => return unreadable(&error).hash(hasher),
    };
    (found.mode(), found.uid(), found.gid()).hash(hasher);
    if found.is_symlink() {
        return fs::read_link(path).map_err(|error| unreadable(&error)).hash(hasher);
    }
    if found.is_file() {
        return fs::read(path).map_err(|error| unreadable(&error)).hash(hasher);
    }
    if !found.is_dir() {
        return;
    }
    match fs::read_dir(path).and_then(|entries| entries.collect::<io::Result<Vec<_>>>()) {
        Ok(entries) => {
            let below: BTreeSet<PathBuf> = entries.iter().map(|entry| entry.path()).collect();
            below.iter().for_each(|path| digest(path, hasher));
        }
        Err(error) => unreadable(&error).hash(hasher),
    }
}

/// Stands for something unreadable; never equal to an empty value.
fn unreadable(error: &io::Error) -> String {
    format!("unreadable: {error}")
}

/// A text of the host, or why it cannot be read.
fn text(read: io::Result<String>) -> String {
    read.unwrap_or_else(|error| unreadable(&error))
}

/// Cgroups that Stockade created.
fn cgroups(folder: &Path, depth: u32, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry.file_name().to_string_lossy().starts_with("stockade") {
            found.insert(format!("cgroup {}", entry.path().display()));
        } else if depth > 0 {
            cgroups(&entry.path(), depth - 1, found);
        }
    }
}

/// Processes of the bench's executables, and launchers and guests of any Stockade.
fn processes(place: &Path) -> impl Iterator<Item = String> {
    let ours = place.display().to_string();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let arguments = fs::read(entry.path().join("cmdline")).ok()?;
        let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
        let is_ours = arguments.starts_with(&ours)
            || arguments.starts_with("stockade-guest")
            || arguments.starts_with(crate::wall::INSIDE);
        let id = entry.file_name().to_string_lossy().into_owned();
        is_ours.then(|| format!("process {id}"))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn hashed(path: &Path) -> u64 {
        let mut hasher = DefaultHasher::new();
        digest(path, &mut hasher);
        hasher.finish()
    }

    #[test]
    fn unreadable_differs_from_empty_and_missing() {
        let missing = text(fs::read_to_string("/no-such-file"));
        // A file that exists and cannot be read from its start.
        let unreadable = text(fs::read_to_string("/proc/self/mem"));
        let empty = text(Ok(String::new()));
        assert_eq!(BTreeSet::from([missing, unreadable, empty]).len(), 3);
    }

    #[test]
    fn every_change_below_a_folder_changes_the_digest() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("file");
        let mut seen = BTreeSet::new();
        let mut differs = |what: &str| assert!(seen.insert(hashed(scratch.path())), "{what}");
        differs("an empty folder");
        fs::write(&file, "").unwrap();
        differs("an empty file");
        fs::write(&file, "text").unwrap();
        differs("its contents");
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).unwrap();
        differs("its mode");
        fs::remove_file(&file).unwrap();
        symlink("/proc/self/mem", &file).unwrap();
        differs("a link");
        fs::remove_file(&file).unwrap();
        symlink("/no-such-file", &file).unwrap();
        differs("the target of a link");
    }
}
