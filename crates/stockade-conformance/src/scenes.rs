//! Probes that need more than one act.

pub(crate) mod faults;
pub(crate) mod files;
pub(crate) mod leftovers;
pub(crate) mod lives;
pub(crate) mod memory;
pub(crate) mod neighbours;
pub(crate) mod posture;
pub(crate) mod signals;
pub(crate) mod tools;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::bench::folder;

/// A process of the harness; dropping it kills it.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(mut command: Command) -> Result<Running, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().map(Running).map_err(error_text)
    }

    /// Whether it ends within a time.
    pub(crate) fn ends_within(&self, time: Duration) -> bool {
        stockade_sys::ends_within(&self.0, time).unwrap_or(false)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An error as a sentence.
pub(crate) fn error_text(error: io::Error) -> String {
    error.to_string()
}

/// Ok if a condition holds, otherwise the given error.
pub(crate) fn must(holds: bool, otherwise: impl Into<String>) -> Result<(), String> {
    match holds {
        true => Ok(()),
        false => Err(otherwise.into()),
    }
}

/// Waits until a condition holds; false on timeout.
pub(crate) fn within(limit: Duration, holds: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !holds() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    true
}

/// The ids of host processes whose arguments contain a word.
pub(crate) fn processes_with(word: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let has_word = |path: PathBuf| {
        let arguments = fs::read(path.join("cmdline")).unwrap_or_default();
        let state = fs::read_to_string(path.join("stat")).unwrap_or_default();
        String::from_utf8_lossy(&arguments).split('\0').any(|it| it == word)
            && !state.contains(") Z ")
    };
    let ids = entries.filter_map(|entry| {
        let id = entry.file_name().to_string_lossy().parse().ok()?;
        has_word(entry.path()).then_some(id)
    });
    ids.collect()
}

/// Kills processes that a control left on the host.
pub(crate) fn end_all(word: &str) {
    for id in processes_with(word) {
        let process = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(process) = process {
            // It may have ended in the meantime.
            let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
        }
    }
}

/// A folder of a wall's user, made where it is missing.
pub(crate) fn existing(path: &Path, user: Option<u32>) -> Result<PathBuf, String> {
    match path.is_dir() {
        true => Ok(path.to_owned()),
        false => folder(path, user).map_err(error_text),
    }
}
