//! `stockade doctor` changes nothing, and is quick.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::leftovers::Host;
use crate::refusing::finish;
use crate::support::stockade;

/// The documented limit is two seconds; a busy host may take three times as long.
const LIMIT: Duration = Duration::from_secs(6);

/// Settings that change without a cause in this test.
const RESTLESS: [&str; 5] = ["random", "ns_last_pid", "pty", "keys", "perf_event_max_sample_rate"];

#[test]
fn doctor_changes_nothing_and_ends_in_time() {
    let host = Host::alone();
    let before = settings();
    assert!(before.len() > 10, "settings can be read: {before:?}");
    for arguments in [&["doctor"][..], &["doctor", "--json"], &["doctor", "--apparmor-profile"]] {
        let start = Instant::now();
        let run = finish(stockade(arguments));
        assert!(start.elapsed() < LIMIT, "{arguments:?} took {:?}", start.elapsed());
        assert!(!run.stdout.is_empty(), "{}", run.stderr);
        host.is_as_before(&[run.pid]).unwrap_or_else(|left| panic!("{arguments:?}: {left}"));
    }
    let after = settings();
    let changed: Vec<_> = before
        .iter()
        .filter_map(|(path, value)| Some((path, value, after.get(path)?)))
        .filter(|(_, before, after)| before != after)
        .collect();
    assert!(changed.is_empty(), "{changed:?}");
}

/// Sysctls, and the enabled controllers of each cgroup v2 group.
fn settings() -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for top in ["/proc/sys/user", "/proc/sys/kernel", "/proc/sys/vm"] {
        read_below(Path::new(top), &mut found);
    }
    let mounts = fs::read_to_string("/proc/self/mounts").expect("/proc can be read");
    for line in mounts.lines().filter(|line| line.contains(" cgroup2 ")) {
        let top = line.split(' ').nth(1).expect("a mount has a place");
        handed_down(Path::new(top), &mut found);
    }
    found
}

fn read_below(directory: &Path, found: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if RESTLESS.iter().any(|name| entry.file_name().to_string_lossy() == *name) {
            continue;
        }
        match path.is_dir() {
            true => read_below(&path, found),
            // Skips files that only root may read.
            false => _ = fs::read_to_string(&path).map(|value| found.insert(path, value)),
        }
    }
}

fn handed_down(group: &Path, found: &mut BTreeMap<PathBuf, String>) {
    let file = group.join("cgroup.subtree_control");
    let _ = fs::read_to_string(&file).map(|value| found.insert(file, value));
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            handed_down(&entry.path(), found);
        }
    }
}
