//! Kills the processes of one execution where no cgroup does.
//!
//! ```text
//! all processes stopped ──▶ those of the execution found in /proc and killed ──▶ the others go on
//! ```
//! A stopped process neither forks nor exits, so its children stay its children while `/proc` is
//! read. Every orphan is reparented to the keeper of its execution, or to the guest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, kill_process};
use stockade_sys::signal_all_processes;

/// How often to look again for processes of the execution. Only one that continues itself by a
/// timer makes a second time necessary.
const ROUNDS: u32 = 100;

/// Some of the processes below the guest.
#[derive(Debug)]
pub(crate) enum Part {
    /// Those below a keeper, without the keeper.
    Below(Pid),
    /// Those that are neither keepers nor below one.
    OutsideOf(Vec<Pid>),
}

/// Kills a part of the processes and returns them. Processes that were stopped before stay stopped.
///
/// An error means that some may be left.
pub(crate) fn kill(part: &Part) -> io::Result<Vec<Pid>> {
    let stopped: BTreeSet<i32> =
        list()?.into_iter().filter(|it| it.1.is_stopped()).map(|it| it.0).collect();
    // Fails only if there is no other process.
    let _ = signal_all_processes(Signal::STOP);
    let killed = kill_stopped(part);
    let all = list()?;
    for (&pid, process) in &all {
        if descends(&all, pid, own()) && process.state != b'Z' && !stopped.contains(&pid) {
            signal(pid, Signal::CONT);
        }
    }
    killed
}

/// Whether `/proc` shows the processes, so that [`kill`] can find them. That of another pid
/// namespace shows other processes under the same ids.
pub(crate) fn is_possible() -> bool {
    let is_own = std::fs::read_link("/proc/self")
        .is_ok_and(|found| found.to_str() == Some(own().to_string().as_str()));
    is_own && list().is_ok_and(|found| found.contains_key(&own()))
}

/// A process and those above it, the nearest first. Ends where a process cannot be found.
pub(crate) fn lineage(process: i32) -> impl Iterator<Item = i32> {
    /// More than any tree inside is deep.
    const MOST: usize = 1024;
    let above = |process: &i32| {
        let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
        parse(&stat).map(|found| found.parent).filter(|parent| *parent > 0)
    };
    std::iter::successors(Some(process), above).take(MOST)
}

fn kill_stopped(part: &Part) -> io::Result<Vec<Pid>> {
    let mut killed = BTreeSet::new();
    for _ in 0..ROUNDS {
        let all = list()?;
        let found =
            all.iter().filter(|(pid, process)| process.state != b'Z' && part.has(&all, **pid));
        let new: Vec<i32> =
            found.map(|(pid, _)| *pid).filter(|pid| !killed.contains(pid)).collect();
        if new.is_empty() {
            return Ok(killed.into_iter().filter_map(Pid::from_raw).collect());
        }
        for pid in new {
            signal(pid, Signal::KILL);
            killed.insert(pid);
        }
    }
    Err(Errno::AGAIN.into())
}

impl Part {
    fn has(&self, all: &Processes, pid: i32) -> bool {
        match self {
            Part::Below(keeper) => descends(all, pid, keeper.as_raw_nonzero().get()),
            Part::OutsideOf(keepers) => {
                let kept = keepers.iter().map(|keeper| keeper.as_raw_nonzero().get());
                let is_kept = |keeper| pid == keeper || descends(all, pid, keeper);
                descends(all, pid, own()) && !kept.into_iter().any(is_kept)
            }
        }
    }
}

type Processes = BTreeMap<i32, Process>;

/// A process as `/proc` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: i32,
    state: u8,
}

impl Process {
    fn is_stopped(self) -> bool {
        matches!(self.state, b'T' | b't')
    }
}

/// Whether a process is below another. Bounded: the list may change between two reads.
fn descends(all: &Processes, pid: i32, ancestor: i32) -> bool {
    let mut above = pid;
    for _ in 0..=all.len() {
        match all.get(&above) {
            Some(process) if process.parent == ancestor => return true,
            Some(process) => above = process.parent,
            None => return false,
        }
    }
    false
}

fn list() -> io::Result<Processes> {
    let mut found = Processes::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process may end meanwhile.
        let Ok(stat) = fs::read(format!("/proc/{pid}/stat")) else { continue };
        found.extend(parse(&stat).map(|process| (pid, process)));
    }
    Ok(found)
}

/// The state and the parent in a `stat` file, proc_pid_stat(5). They follow the name, which may
/// itself contain parentheses and spaces.
fn parse(stat: &[u8]) -> Option<Process> {
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&stat[name_ends + 1..]).ok()?;
    let mut words = rest.split_ascii_whitespace();
    let state = *words.next()?.as_bytes().first()?;
    Some(Process { parent: words.next()?.parse().ok()?, state })
}

fn own() -> i32 {
    getpid().as_raw_nonzero().get()
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // Fails if the process has ended.
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_process_does_not_forge_its_parent() {
        let stat = b"7 (a) S 99 (b)) T 3 7 7 0 -1";
        assert_eq!(parse(stat), Some(Process { parent: 3, state: b'T' }));
        assert_eq!(parse(b"7 (a"), None);
        assert_eq!(parse(b"7 (a) S"), None);
    }

    #[test]
    fn part_outside_of_keepers_has_neither_them_nor_what_is_below_them() {
        let process = |parent| Process { parent, state: b'S' };
        let guest = own();
        let (keeper, kept, free, below, other) =
            (guest + 1, guest + 2, guest + 3, guest + 4, guest + 5);
        let all = Processes::from([
            (guest, process(0)),
            (keeper, process(guest)),
            (kept, process(keeper)),
            (free, process(guest)),
            (below, process(free)),
            (other, process(0)),
        ]);
        let pid = Pid::from_raw(keeper).unwrap();
        let of = |part: Part| -> Vec<i32> {
            all.keys().copied().filter(|pid| part.has(&all, *pid)).collect()
        };
        assert_eq!(of(Part::OutsideOf(vec![pid])), [free, below]);
        assert_eq!(of(Part::Below(pid)), [kept]);
    }
}
