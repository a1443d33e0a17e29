//! What programs used: processor time from outside, and the counts of the cgroup inside.
//!
//! The counts inside are the machine's own claims. They only name the reason for an end that the
//! machine's programs have reached anyway, and never extend a limit.

use std::sync::Arc;
use std::time::Duration;

use stockade_provider::{FileBytes, FilePart, FilePath, Files};
use stockade_wire::MACHINE_CGROUP;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

/// How long the guest may take to answer.
const PATIENCE: Duration = Duration::from_millis(800);
/// The most that one file of counts contains.
const MOST_BYTES: u64 = 4096;

/// The counts of the cgroup inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) memory_kills: u64,
    pub(crate) memory_peak_bytes: Option<u64>,
    pub(crate) tasks_peak: Option<u64>,
}

/// Reads the counts; a guest that does not answer has none.
pub(crate) async fn counts(files: &Arc<dyn Files>) -> Option<Counts> {
    let all = async {
        let events = read(files, "memory.events").await?;
        let peak = read(files, "memory.peak").await;
        let tasks = read(files, "pids.peak").await;
        let number = |text: Option<String>| text?.trim().parse().ok();
        Some(Counts {
            memory_kills: kills(&events),
            memory_peak_bytes: number(peak),
            tasks_peak: number(tasks),
        })
    };
    timeout(PATIENCE, all).await.ok().flatten()
}

async fn read(files: &Arc<dyn Files>, name: &str) -> Option<String> {
    let path = FilePath::new(format!("{MACHINE_CGROUP}/{name}").into_bytes()).ok()?;
    let part = FilePart { offset: 0, length: Some(MOST_BYTES) };
    let bytes: FileBytes = files.read(&path, part).await.ok()?;
    let mut text = String::new();
    bytes.take(MOST_BYTES).read_to_string(&mut text).await.ok()?;
    Some(text)
}

/// The kernel's kills for lack of memory, in the text of `memory.events`.
fn kills(events: &str) -> u64 {
    let line = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_are_counted_from_their_own_line() {
        let events = "low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 0\n";
        assert_eq!((kills(events), kills(""), kills("oom_kill x\n")), (3, 0, 0));
    }
}
