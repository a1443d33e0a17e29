//! A run leaves nothing on the host.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{alone, binary, report, walls_can_be_built, within};

/// The cgroup directories that a process created.
fn groups_of(owner: u32) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(Path::new("/sys/fs/cgroup"), &format!("stockade-{owner}-"), 6, &mut found);
    found
}

fn collect(directory: &Path, prefix: &str, depth: u32, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for path in entries.filter(|entry| entry.path().is_dir()).map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(prefix) {
            found.push(path);
        } else if depth > 0 {
            collect(&path, prefix, depth - 1, found);
        }
    }
}

/// The processes of a session, as `/proc/PID/stat`.
fn session_of(session: u32) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((_, fields)) = stat.rsplit_once(')') else { continue };
        let field = |at: usize| fields.split_whitespace().nth(at)?.parse::<u32>().ok();
        if field(3) == Some(session) && field(1) != Some(0) {
            found.push(stat);
        }
    }
    found
}

fn mounts() -> String {
    std::fs::read_to_string("/proc/self/mountinfo").expect("mounts can be listed")
}

#[test]
fn no_run_leaves_a_process_cgroup_or_mount() {
    if !walls_can_be_built() {
        return;
    }
    let _quiet = alone();
    let before = mounts();
    let endings: [&[&str]; 9] = [
        &["--", "true"],
        &["--", "sh", "-c", "setsid sleep 98741 & kill -9 $$"],
        &["--timeout", "300ms", "--", "sh", "-c", "setsid sleep 98741 & sleep 98741"],
        &["--", "no-such-program"],
        &["--memory", "32m", "--", "python3", "-c", "bytearray(b'x') * 10**9"],
        &["--mount", "/nonexistent:/x", "--", "true"],
        // Stockade refuses these before it starts a sandbox.
        &["--no-such-flag", "--", "true"],
        &["/no/such/script.py"],
        &["--memory", "64m", "--disk", "512m", "--", "true"],
    ];
    for words in endings {
        let mut child = Command::new("setsid")
            .arg(binary())
            .arg("run")
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let owner = child.id();
        child.wait().unwrap();
        let clean = || groups_of(owner).is_empty() && session_of(owner).is_empty();
        let gone = within(Duration::from_secs(2), clean);
        assert!(gone, "{words:?} left {:?} {:?}", groups_of(owner), session_of(owner));
        let sleeps = || crate::support::processes().iter().any(|line| line == "sleep 98741 ");
        assert!(within(Duration::from_secs(2), || !sleeps()), "{words:?} left a sleep");
    }
    assert_eq!(mounts(), before);
}

/// Proves that the helpers above find the cgroups and processes of a run.
#[test]
fn cgroups_and_processes_of_a_run_are_found_during_the_run() {
    if !walls_can_be_built() {
        return;
    }
    let mut child = Command::new("setsid")
        .arg(binary())
        .args(["run", "--quiet", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let owner = child.id();
    assert!(within(Duration::from_secs(5), || !session_of(owner).is_empty()));
    if has_cgroups() {
        assert!(within(Duration::from_secs(5), || !groups_of(owner).is_empty()));
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

/// Whether a report names cgroups, so that this host uses them.
fn has_cgroups() -> bool {
    report(&["--", "true"]).1["isolation"].to_string().contains("cgroup v")
}
