//! Counts what sandboxes leave behind on the machine.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Counts of everything that a sandbox could leave.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Count(pub(super) Vec<(&'static str, usize)>);

impl Count {
    pub(super) fn now() -> Count {
        Count(vec![
            ("processes", processes()),
            ("cgroups", cgroups(Path::new("/sys/fs/cgroup"), 4)),
            ("mounts", lines("/proc/self/mountinfo")),
            ("descriptors", entries("/proc/self/fd")),
            ("threads", entries("/proc/self/task")),
            ("files", named(&std::env::temp_dir())),
        ])
    }

    /// How much more there is than before, after waiting up to `patience` for cleanup.
    pub(super) fn more_since(before: &Count, patience: Duration) -> usize {
        let deadline = Instant::now() + patience;
        loop {
            let now = Count::now();
            let more =
                |(now, before): (&(&str, usize), &(&str, usize))| now.1.saturating_sub(before.1);
            let left = now.0.iter().zip(&before.0).map(more).sum();
            if left == 0 || Instant::now() > deadline {
                return left;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Other processes that run this executable or one of its embedded binaries.
fn processes() -> usize {
    let Ok(own) = fs::read_link("/proc/self/exe") else { return 0 };
    let ours = |entry: &fs::DirEntry| {
        let is_process = entry.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit());
        let exe = fs::read_link(entry.path().join("exe"));
        is_process
            && exe.is_ok_and(|exe| exe == own || exe.to_string_lossy().contains("/memfd:stockade"))
    };
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter(|entry| entry.file_name() != std::process::id().to_string().as_str())
        .filter(ours)
        .count()
}

fn cgroups(directory: &Path, depth: usize) -> usize {
    let Some(below) = depth.checked_sub(1) else { return 0 };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories
        .map(|entry| {
            let ours = entry.file_name().to_string_lossy().starts_with("stockade-");
            usize::from(ours) + cgroups(&entry.path(), below)
        })
        .sum()
}

fn named(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("stockade")).count()
}

fn entries(directory: &str) -> usize {
    fs::read_dir(directory).map_or(0, Iterator::count)
}

fn lines(file: &str) -> usize {
    fs::read_to_string(file).map_or(0, |text| text.lines().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_leftovers_since_the_first_count_are_counted() {
        let mut before = Count::now();
        assert!(before.0.iter().any(|(name, count)| *name == "mounts" && *count > 0));
        for (name, count) in &mut before.0 {
            if *name == "mounts" {
                *count -= 1;
            }
        }
        assert!(Count::more_since(&before, Duration::ZERO) >= 1);
    }
}
