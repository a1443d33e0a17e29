//! A file that is larger than the memory of this machine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::support::{Sessions, ended};

/// What a process may use, as resident memory.
const MOST_KB: u64 = 64 << 10;

/// The most memory that a process has used so far; `None` once it has ended.
fn peak_kb(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// All of it takes minutes, so only `STOCKADE_LONG=1` copies 20 GB.
fn size() -> u64 {
    if std::env::var_os("STOCKADE_LONG").is_some() { 20 << 30 } else { 256 << 20 }
}

#[test]
fn sparse_file_is_downloaded_whole_in_little_memory() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let (supervisor, size) = (sessions.supervisor("one"), size());
    let script = format!("truncate -s {size} big; printf end >> big; stat -c %s big");
    assert_eq!(sessions.sh("one", &script).text(), format!("{}\n", size + 3));
    let target = sessions.place.path().join("big");
    let copy = sessions.start(&["cp", "one:big", target.to_str().expect("a text")]);
    let (client, mut peak) = (copy.id(), 0);
    let copied = |file: &Path| fs::metadata(file).map_or(0, |found| found.len());
    while let Some(now) = peak_kb(client) {
        peak = peak.max(now);
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
    let run = ended(copy);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let held = peak_kb(supervisor).expect("the supervisor runs");
    let found = fs::metadata(&target).expect("the file is there");
    stockade_testing::say(&format!(
        "copied {} bytes; the client used {peak} kB and the supervisor {held} kB",
        copied(&target)
    ));
    assert_eq!(found.len(), size + 3);
    assert!(found.blocks() * 512 < 16 << 20, "its holes take {} blocks", found.blocks());
    let mut end = [0; 3];
    let file = fs::File::open(&target).expect("it can be read");
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut end, size).expect("it is whole");
    assert_eq!(&end, b"end");
    assert!(peak > 0 && peak < MOST_KB, "the client used {peak} kB");
    assert!(held < MOST_KB, "the supervisor used {held} kB");
}
