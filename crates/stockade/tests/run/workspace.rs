//! The working directory of a run and its `--workspace` modes.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use crate::support::{outside, stockade, walls_can_be_built};
use stockade_testing::{Scratch, set_mode};

/// What reveals a change of a file: mode, owner, inode, modification time and content.
type Facts = (u32, u32, u64, i64, Option<Vec<u8>>);

/// The facts of every file below a directory.
fn snapshot(directory: &Path) -> BTreeMap<String, Facts> {
    let mut seen = BTreeMap::new();
    for entry in std::fs::read_dir(directory).expect("the directory is ours") {
        let path = entry.expect("the directory is ours").path();
        let meta = path.symlink_metadata().expect("nothing goes away");
        let content = if meta.is_file() { std::fs::read(&path).ok() } else { None };
        let facts = (meta.mode(), meta.uid(), meta.ino(), meta.mtime_nsec(), content);
        seen.insert(path.display().to_string(), facts);
        if meta.is_dir() {
            seen.extend(snapshot(&path));
        }
    }
    seen
}

fn project() -> Scratch {
    let scratch = Scratch::new();
    scratch.file("main.txt", "as it was\n");
    scratch.directory("src");
    scratch.file("src/old.txt", "old\n");
    let tool = scratch.file("tool.sh", "#!/bin/sh\necho tool\n");
    set_mode(Path::new(&tool), 0o755);
    symlink("/etc/hostname", scratch.path().join("leads-out")).expect("links can be made");
    scratch
}

const CHANGE: &str = "echo changed > main.txt && rm src/old.txt && echo new > src/new.txt && \
                      mv src moved && chmod 600 main.txt && ./tool.sh && cat main.txt && ls moved";

#[test]
fn overlay_takes_every_change_and_leaves_the_host_unchanged() {
    if !walls_can_be_built() {
        return;
    }
    let control = project();
    let words = ["sh", "-c", &format!("cd {} && {CHANGE}", control.text())];
    let expected = outside(&words).text().to_owned();
    for mode in ["", ":overlay"] {
        let project = project();
        let before = snapshot(project.path());
        let workspace = format!("{}{mode}", project.text());
        let run = stockade(&["--workspace", &workspace, "--", "sh", "-c", CHANGE]);
        assert_eq!(run.text(), expected);
        assert_eq!(snapshot(project.path()), before);
    }
}

#[test]
fn read_mode_allows_no_change() {
    if !walls_can_be_built() {
        return;
    }
    let project = project();
    let before = snapshot(project.path());
    let script = "cat main.txt; echo x > main.txt; rm src/old.txt; touch new; ls";
    let workspace = format!("{}:read", project.text());
    let run = stockade(&["--quiet", "--workspace", &workspace, "--", "sh", "-c", script]);
    assert_eq!(run.stdout, "as it was\nleads-out\nmain.txt\nsrc\ntool.sh\n", "{}", run.stderr);
    assert_eq!(snapshot(project.path()), before);
}

#[test]
fn write_mode_changes_the_host_as_the_caller() {
    if !walls_can_be_built() {
        return;
    }
    let project = project();
    let workspace = format!("{}:write", project.text());
    let run = stockade(&["--workspace", &workspace, "--", "sh", "-c", CHANGE]);
    assert_eq!(run.text(), "tool\nchanged\nnew.txt\n");
    let found = std::fs::metadata(project.path().join("moved/new.txt")).unwrap();
    assert_eq!(found.uid(), rustix::process::geteuid().as_raw());
    assert_eq!(found.gid(), rustix::process::getegid().as_raw());
    let main = std::fs::metadata(project.path().join("main.txt")).unwrap();
    assert_eq!(main.mode() & 0o7777, 0o600);
}

#[test]
fn default_workspace_is_empty_writable_and_removed_afterwards() {
    if !walls_can_be_built() {
        return;
    }
    let run = stockade(&["--", "sh", "-c", "pwd; ls -A; echo x > file; cat file"]);
    assert_eq!(run.text(), "/workspace\nx\n");
    assert_eq!(
        stockade(&["--", "ls", "-A", "/workspace", "/tmp"]).text(),
        "/tmp:\n\n/workspace:\n"
    );
}

#[test]
fn overlay_writes_count_toward_the_disk_limit() {
    if !walls_can_be_built() {
        return;
    }
    let project = project();
    let fill = "head -c 100000000 /dev/zero > big; ls -s --block-size=1M big | cut -d' ' -f1";
    let words = ["--memory", "128m", "--disk", "16m", "--workspace", project.text(), "--"];
    let run = stockade(&[&words[..], &["sh", "-c", fill]].concat());
    let written: u64 = run.stdout.trim().parse().unwrap();
    assert!(written <= 16, "{written} MiB; {}", run.stderr);
    assert!(run.stderr.contains("No space left on device"), "{}", run.stderr);
}
