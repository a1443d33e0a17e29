//! Finds what a run of `stockade` leaves on the host.
//!
//! Tests run one at a time, and this process is a child subreaper: orphans reparent to it and not
//! to the host's init, so every descendant belongs to the current test.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, wait};

/// How long teardown may continue after Stockade exits.
const PATIENCE: Duration = Duration::from_secs(3);

/// The polling interval.
const INTERVAL: Duration = Duration::from_millis(5);

/// Directories in which a run could leave files.
const FOLDERS: [&str; 3] = ["/tmp", "/dev/shm", "/run"];

/// Exclusive use of the host by one test, with the state of the host before it.
pub(crate) struct Host {
    before: Seen,
    _alone: MutexGuard<'static, ()>,
}

/// The mounts, files and locks on the host. Processes and cgroups are found by their owner instead.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    mounts: BTreeSet<String>,
    files: BTreeSet<PathBuf>,
    locks: BTreeSet<String>,
}

impl Host {
    /// Waits for other tests of this executable to end, and records the state of the host.
    pub(crate) fn alone() -> Host {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        set_child_subreaper(Some(getpid())).expect("orphans can be taken in");
        Host { before: Seen::now(), _alone: alone }
    }

    /// Waits until nothing is left of the runs with these process ids, which have ended and been
    /// reaped. The error lists what is left at the deadline.
    pub(crate) fn is_as_before(&self, runs: &[u32]) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        let mut locks = Seen::now().locks;
        loop {
            reap();
            let processes = descendants();
            let groups = groups_of(runs);
            let now = Seen::now();
            let mounts: Vec<_> = now.mounts.difference(&self.before.mounts).collect();
            let files: Vec<_> = now.files.difference(&self.before.files).collect();
            let files: Vec<_> =
                files.into_iter().filter(|file| !is_of_others(file, runs)).collect();
            // Other processes may run sandboxes on this host; a leaked lock is in every poll.
            locks.retain(|lock| now.locks.contains(lock) && !self.before.locks.contains(lock));
            let left = (named(&processes), &groups, &mounts, &files, &locks);
            if processes.is_empty()
                && groups.is_empty()
                && mounts.is_empty()
                && files.is_empty()
                && locks.is_empty()
            {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("left (processes, groups, mounts, files, locks): {left:?}"));
            }
            std::thread::sleep(INTERVAL);
        }
    }
}

impl Seen {
    fn now() -> Seen {
        let lines = |path: &str| -> Vec<String> {
            let text = fs::read_to_string(path).expect("/proc can be read");
            text.lines().map(str::to_owned).collect()
        };
        let is_lock = |line: &String| line.contains("@stockade-ids-");
        Seen {
            mounts: lines("/proc/self/mountinfo").into_iter().collect(),
            files: FOLDERS.iter().flat_map(|folder| files_of_ours(Path::new(folder))).collect(),
            locks: lines("/proc/net/unix").into_iter().filter(is_lock).collect(),
        }
    }
}

/// The files in a directory whose names contain the product's name.
fn files_of_ours(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let is_ours = |name: &str| name.contains("stockade");
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_ours))
        .map(|entry| entry.path())
        .collect()
}

/// Whether a file name contains process ids but none of these.
fn is_of_others(file: &Path, runs: &[u32]) -> bool {
    let name = file.to_string_lossy();
    let mut numbers = name.split(|c: char| !c.is_ascii_digit()).flat_map(str::parse).peekable();
    numbers.peek().is_some() && !numbers.any(|number: u32| runs.contains(&number))
}

/// Reaps every orphan that has ended.
pub(crate) fn reap() {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}

/// All descendants of this process, including zombies.
pub(crate) fn descendants() -> BTreeMap<u32, Process> {
    let mut all = processes();
    let mut found = BTreeMap::new();
    let mut ahead = vec![std::process::id()];
    while let Some(parent) = ahead.pop() {
        let (below, rest) = all.into_iter().partition(|(_, process)| process.parent == parent);
        all = rest;
        let below: BTreeMap<u32, Process> = below;
        ahead.extend(below.keys());
        found.extend(below);
    }
    found
}

/// One process, as `/proc` shows it.
pub(crate) struct Process {
    pub(crate) parent: u32,
    name: String,
    state: char,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) below {}", self.name, self.state, self.parent)
    }
}

/// Formats processes as one line.
pub(crate) fn named(processes: &BTreeMap<u32, Process>) -> String {
    let each: Vec<String> = processes.iter().map(|(pid, it)| format!("{pid} {it}")).collect();
    each.join(", ")
}

fn processes() -> BTreeMap<u32, Process> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir("/proc").expect("/proc can be listed").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // The process may have ended since the listing.
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some(process) = parse(&stat) {
            all.insert(pid, process);
        }
    }
    all
}

fn parse(stat: &str) -> Option<Process> {
    let (head, rest) = stat.rsplit_once(") ")?;
    let (_, name) = head.split_once('(')?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    Some(Process { parent: fields.next()?.parse().ok()?, name: name.to_owned(), state })
}

/// The cgroups that these processes created, in every hierarchy.
pub(crate) fn groups_of(owners: &[u32]) -> Vec<PathBuf> {
    let owned = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let owner = name.split('-').nth(1).and_then(|pid| pid.parse().ok());
        owner.is_some_and(|pid| owners.contains(&pid))
    };
    groups().into_iter().filter(owned).collect()
}

/// Every cgroup of Stockade, of any owner.
fn groups() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("/proc can be read");
    let tops = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (top, kind) = (words.nth(1)?, words.next()?);
        kind.starts_with("cgroup").then(|| PathBuf::from(top))
    });
    let mut found = Vec::new();
    let mut ahead: Vec<PathBuf> = tops.collect();
    while let Some(directory) = ahead.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                match entry.file_name().to_string_lossy().starts_with("stockade-") {
                    true => found.push(entry.path()),
                    false => ahead.push(entry.path()),
                }
            }
        }
    }
    found
}

/// Whether Stockade can isolate a program on this host; see [`stockade_testing::walls_can_be_built`].
pub(crate) fn walls_can_be_built() -> bool {
    stockade_testing::walls_can_be_built(&binary())
}

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    stockade_testing::under_test(env!("CARGO_BIN_EXE_stockade"))
}

/// Kills a process, which may have ended already.
pub(crate) fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}
