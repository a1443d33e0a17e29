//! Reads and writes all writable places, for checkpoints.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Pid, getpid};
use stockade_archive::tree::{CapturedPlace, capture as read_places, fill_tree};
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
    /// The guest's own children. `None` if the host freezes programs by their cgroups.
    pub(super) spared: Option<HashSet<Pid>>,
}

/// Sends everything in the writable places.
pub(super) fn capture(
    root: &Root,
    surroundings: &CaptureScope,
    places: &[StatePlace],
    output: &mut impl Write,
) -> Result<FileDone, Failed> {
    if let Some(spared) = &surroundings.spared {
        wait_until_stopped(spared)?;
    }
    let mut open = Vec::new();
    for (number, place) in (0..).zip(places) {
        let shown = root.directory(&place.path, Missing::Fail)?;
        let (directory, overlay) = match place.changes {
            true => (surroundings.upper(&place.path)?, Some(shown)),
            false => (shown, None),
        };
        let skip = place.skip.iter().map(|name| name.as_bytes().to_vec()).collect();
        open.push(CapturedPlace { number, directory, overlay, skip });
    }
    let counted = read_places(&open, output).map_err(failed)?;
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

/// Whether a task is stopped, has ended, or belongs to the kernel, from its file `stat`, proc(5).
fn is_stopped(stat: &[u8]) -> bool {
    let end = stat.iter().rposition(|byte| *byte == b')').unwrap_or(0);
    let fields = stat.get(end + 2..).unwrap_or_default();
    let mut fields = fields.split(|byte| *byte == b' ');
    let state = fields.next().unwrap_or_default();
    let flags = fields.nth(5).and_then(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok());
    matches!(state, b"T" | b"t" | b"Z" | b"X") || flags.is_some_and(|it| it & KERNEL_THREAD != 0)
}

/// Waits until every program is stopped. The host has sent the signal before.
fn wait_until_stopped(spared: &HashSet<Pid>) -> Result<(), Fault> {
    let deadline = Instant::now() + STOPPING;
    loop {
        if is_all_stopped(spared)? {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(FileFault::Busy.into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn is_all_stopped(spared: &HashSet<Pid>) -> Result<bool, Fault> {
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
            if !is_stopped(&stat) {
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
    }
}
