//! The disks to which an io limit applies.

use std::fs;

/// Every whole disk with a size, as `major:minor`. Partitions cannot be limited separately.
pub(super) fn disks() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/sys/block") else { return Vec::new() };
    let disk = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.ok()?.path();
        let sectors = fs::read_to_string(path.join("size")).ok()?;
        let number = fs::read_to_string(path.join("dev")).ok()?.trim().to_owned();
        (sectors.trim() != "0").then_some(number)
    };
    entries.filter_map(disk).collect()
}
