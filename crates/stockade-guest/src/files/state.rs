//! Reads and writes all writable places, for checkpoints.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Pid, getpid};
use stockade_archive::ArchiveError;
use stockade_archive::tree::{
    CapturedPlace, Counted, capture as read_places, digest as digest_places, fill_tree,
};
use stockade_wire::{FileDone, FileFault, PathBytes, StatePlace};

use super::fault::{Failed, Fault};
use super::root::{Missing, Root};
use super::transfer::failed;

/// How long programs may take to stop after the signal. A machine whose instructions are translated
/// is slow.
const STOPPING: Duration = Duration::from_secs(5);

/// The flag of a kernel thread, which is visible only in a virtual machine. No program can set it.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// What a capture needs from the guest.
pub(super) struct CaptureScope {
    /// The upper layers of overlays, by the paths of the overlays.
    pub(super) uppers: Vec<(PathBuf, OwnedFd)>,
    /// Whether the guest stops programs, and the host does not freeze them by their cgroups.
    pub(super) stops_programs: bool,
    /// The guest's own children.
    pub(super) helpers: HashSet<Pid>,
}

/// Sends everything in the writable places.
pub(super) fn capture(
    root: &Root,
    surroundings: &CaptureScope,
    places: &[StatePlace],
    output: &mut impl Write,
) -> Result<FileDone, Failed> {
    if surroundings.stops_programs {
        wait_until_stopped(&surroundings.helpers)?;
    }
    let open = surroundings.open(root, places)?;
    sent(read_places(&open, output), output)
}

/// Sends the same with hashes of content, if no program runs and none left System V objects: nothing
/// that runs later can have an open file, a mapping or shared memory from before. An interpreter that
/// waits for code counts as a program: it may have read files of before.
pub(super) fn digest(
    root: &Root,
    surroundings: &CaptureScope,
    places: &[StatePlace],
    output: &mut impl Write,
) -> Result<FileDone, Failed> {
    let busy = || Err(Fault::from(FileFault::Busy).into());
    if !is_all(&surroundings.helpers, has_ended)? || may_have_shared_objects() {
        return busy();
    }
    let open = surroundings.open(root, places)?;
    let counted = digest_places(&open, output, |bytes| *blake3::hash(bytes).as_bytes());
    // What is not sent cannot be undone: any program can make a whiteout, mknod(2).
    if matches!(&counted, Ok(counted) if counted.left_out > 0) {
        return busy();
    }
    sent(counted, output)
}

fn sent(
    counted: Result<Counted, ArchiveError>,
    output: &mut impl Write,
) -> Result<FileDone, Failed> {
    let counted = counted.map_err(failed)?;
    output.flush().map_err(Fault::from)?;
    Ok(FileDone { bytes: counted.bytes, left_out: counted.left_out, ..FileDone::default() })
}

/// Writes all writable places.
pub(super) fn fill(
    root: &Root,
    places: &[StatePlace],
    tree: &mut impl Read,
) -> Result<FileDone, Failed> {
    let open = places.iter().map(|place| root.directory(&place.path, Missing::Fail));
    let open = open.collect::<Result<Vec<_>, _>>()?;
    let filled = fill_tree(&open, tree).map_err(failed)?;
    // The host expects that its end is read too.
    std::io::copy(tree, &mut std::io::sink()).map_err(Fault::from)?;
    let (bytes, left_out) = (filled.bytes, filled.left_out);
    Ok(FileDone { bytes, left_out, changed: true, ..FileDone::default() })
}

impl CaptureScope {
    fn open(&self, root: &Root, places: &[StatePlace]) -> Result<Vec<CapturedPlace>, Fault> {
        let mut open = Vec::new();
        for (number, place) in (0..).zip(places) {
            let shown = root.directory(&place.path, Missing::Fail)?;
            let (directory, overlay) = match place.changes {
                true => (self.upper(&place.path)?, Some(shown)),
                false => (shown, None),
            };
            let skip = place.skip.iter().map(|name| name.as_bytes().to_vec()).collect();
            open.push(CapturedPlace { number, directory, overlay, skip });
        }
        Ok(open)
    }

    fn upper(&self, path: &PathBytes) -> Result<OwnedFd, Fault> {
        let is_it = |(at, _): &&(PathBuf, OwnedFd)| at.as_os_str().as_bytes() == path.as_bytes();
        let found = self.uppers.iter().find(is_it);
        let (_, upper) = found.ok_or(Fault::from(FileFault::NotFound))?;
        // A new description: reading a directory moves its position.
        let flags = rustix::fs::OFlags::RDONLY
            | rustix::fs::OFlags::DIRECTORY
            | rustix::fs::OFlags::CLOEXEC;
        Ok(rustix::fs::openat(upper, ".", flags, rustix::fs::Mode::empty())?)
    }
}

/// The state of a task, and whether it belongs to the kernel, from its file `stat`, proc(5).
fn state_of(stat: &[u8]) -> (&[u8], bool) {
    let end = stat.iter().rposition(|byte| *byte == b')').unwrap_or(0);
    let fields = stat.get(end + 2..).unwrap_or_default();
    let mut fields = fields.split(|byte| *byte == b' ');
    let state = fields.next().unwrap_or_default();
    let flags = fields.nth(5).and_then(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok());
    (state, flags.is_some_and(|it| it & KERNEL_THREAD != 0))
}

/// Whether a task has ended, or belongs to the kernel.
fn has_ended(stat: &[u8]) -> bool {
    let (state, is_kernel) = state_of(stat);
    is_kernel || matches!(state, b"Z" | b"X")
}

/// Whether a task is stopped, has ended, or belongs to the kernel.
fn is_stopped(stat: &[u8]) -> bool {
    has_ended(stat) || matches!(state_of(stat).0, b"T" | b"t")
}

/// Whether programs may have left shared memory, semaphores or queues of System V, which outlive
/// processes. Each file of proc(5) has a line of titles, and one for each object. gVisor has the
/// objects and not the files.
fn may_have_shared_objects() -> bool {
    ["shm", "sem", "msg"].iter().any(|kind| {
        let listed = std::fs::read_to_string(format!("/proc/sysvipc/{kind}"));
        listed.map_or(true, |text| text.lines().count() > 1)
    })
}

/// Waits until every program is stopped. The host has sent the signal before.
fn wait_until_stopped(spared: &HashSet<Pid>) -> Result<(), Fault> {
    let deadline = Instant::now() + STOPPING;
    loop {
        if is_all(spared, is_stopped)? {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(FileFault::Busy.into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether every task is so, except those of the guest itself and the spared processes.
fn is_all(spared: &HashSet<Pid>, is_so: fn(&[u8]) -> bool) -> Result<bool, Fault> {
    let own = [Pid::INIT, getpid()];
    for entry in std::fs::read_dir("/proc").map_err(Fault::from)? {
        let name = entry.map_err(Fault::from)?.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let Some(pid) = pid.filter(|pid| !own.contains(pid) && !spared.contains(pid)) else {
            continue;
        };
        let tasks = match std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) {
            Ok(tasks) => tasks,
            // It has ended.
            Err(_) => continue,
        };
        for task in tasks.flatten() {
            let Ok(stat) = std::fs::read(task.path().join("stat")) else { continue };
            if !is_so(&stat) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_stopped_tasks_and_kernel_threads_count_as_stopped() {
        let stat = |state: &str, flags: u64| format!("7 (a) R (b) {state} 1 7 7 0 -1 {flags} 0 0");
        let is = |state: &str, flags: u64| is_stopped(stat(state, flags).as_bytes());
        for state in ["T", "t", "Z", "X"] {
            assert!(is(state, 0x0040_0000), "{state}");
        }
        assert!(!is("R", 0x0040_0000) && !is("S", 0x0040_0000) && !is("D", 0));
        assert!(is("I", 0x0020_8040) && is("S", 0x0020_0000));
        assert!(!is_stopped(b"") && !is_stopped(b"7 (a)"));
        let has = |state: &str, flags: u64| has_ended(stat(state, flags).as_bytes());
        assert!(has("Z", 0) && has("X", 0) && has("S", 0x0020_0000));
        assert!(!has("T", 0) && !has("t", 0) && !has("R", 0) && !has_ended(b""));
    }
}
