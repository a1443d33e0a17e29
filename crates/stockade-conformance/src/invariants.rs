//! What of the host must be the same after all probes as before.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::bench::Bench;

/// Bytes and inodes that others on the host may use up meanwhile.
const FREE_BYTES: u64 = 8 << 30;
const FREE_INODES: u64 = 1 << 20;

/// Settings that code inside might want to change.
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

/// One look at the host: things by a name that says what they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Host {
    /// What must have the same value.
    values: BTreeMap<String, String>,
    /// What must not become more.
    things: BTreeSet<String>,
    free_bytes: u64,
    free_inodes: u64,
}

impl Host {
    /// Looks at the host, and at the folders of the bench that no probe may change.
    pub(crate) fn look(bench: &Bench) -> Host {
        let read = |path: String| fs::read_to_string(path).unwrap_or_default();
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

    /// What is different now. Taking down goes on behind an answer, so a difference counts only
    /// when it stays for this long.
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

/// Names, sizes and contents below a path.
fn digest(path: &Path, hasher: &mut DefaultHasher) {
    path.hash(hasher);
    let Ok(kind) = fs::symlink_metadata(path) else { return };
    if !kind.is_dir() {
        fs::read(path).unwrap_or_default().hash(hasher);
        return;
    }
    let mut below: Vec<PathBuf> =
        fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    below.sort();
    below.iter().for_each(|path| digest(path, hasher));
}

/// Cgroups that some Stockade made.
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
