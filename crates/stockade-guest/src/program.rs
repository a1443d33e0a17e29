//! Finds and starts a program.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use crate::keeper::{self, Keeper};
use rustix::fs::Access;
use rustix::io::Errno;
use rustix::process::{Pid, chdir};
use stockade_sys::{Instruction, Spawn, spawn};
use stockade_wire::{Execute, Filter, Text};

use crate::stdio::Theirs;
use crate::terminal::MULTIPLEXER;

/// The search path if the environment has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Why a program did not start: the errno, and the path that caused it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StartFailure {
    pub(crate) errno: i32,
    pub(crate) about: Text,
}

impl StartFailure {
    pub(crate) fn new(error: &io::Error, about: &Text) -> StartFailure {
        // Errors without an errno come from the standard library, not the kernel; report them as
        // EIO.
        let errno = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
        StartFailure { errno, about: about.clone() }
    }

    pub(crate) fn of_terminal(error: &io::Error) -> StartFailure {
        let about = Text::try_from(MULTIPLEXER).expect("a path without a null byte is a text");
        StartFailure::new(error, &about)
    }
}

/// What the guest adds to a request.
#[derive(Clone, Copy, Default)]
pub(crate) struct Settings<'s> {
    /// The descriptor limit of the program, if it is lower than the guest's.
    pub(crate) open_files: Option<u64>,
    /// The guest's own `oom_score_adj`.
    pub(crate) oom_score: Option<&'s File>,
    /// The files of the cgroups that the program enters.
    pub(crate) cgroups: &'s [OwnedFd],
    /// Whether it gets a keeper.
    pub(crate) needs_keeper: bool,
}

/// Starts the program with these standard streams, and its keeper, if it needs one.
pub(crate) fn start(
    request: &Execute,
    streams: &Theirs,
    settings: Settings<'_>,
) -> Result<(Pid, Option<Keeper>), StartFailure> {
    chdir(request.working_directory.as_str())
        .map_err(|errno| StartFailure::new(&errno.into(), &request.working_directory))?;
    let failed = |error: io::Error| StartFailure::new(&error, &request.program);
    let program = Spawn {
        path: c"",
        arguments: &request.arguments.iter().map(Text::to_c_string).collect::<Vec<_>>(),
        environment: &environment(request).map_err(failed)?,
        streams: streams.streams(),
        controls: streams.controls(),
        open_files: settings.open_files,
        cgroups: &settings.cgroups.iter().map(AsFd::as_fd).collect::<Vec<_>>(),
        filters: &request.filters.iter().map(instructions).collect::<Vec<_>>(),
    };
    let spawn = || spawn_found(request, program);
    as_victim(settings.oom_score, || match settings.needs_keeper {
        true => keeper::start(spawn).map(|(pid, keeper)| (pid, Some(keeper))),
        false => Ok((spawn()?, None)),
    })
    .map_err(failed)
}

/// Starts the first file found in the search path, in the order and with the errors of execvp(3).
fn spawn_found(request: &Execute, program: Spawn<'_>) -> io::Result<Pid> {
    let try_path = |path: &CStr| spawn(Spawn { path, ..program });
    let name = request.program.as_str();
    if name.is_empty() {
        return Err(Errno::NOENT.into());
    }
    if name.contains('/') {
        return try_path(&request.program.to_c_string());
    }
    let mut refused = Errno::NOENT;
    for folder in search_path(request).split(':') {
        let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        let path = CString::new(path)?;
        // Checking first is cheaper than spawning a process that finds no file.
        if rustix::fs::access(&path, Access::EXISTS).is_err() {
            continue;
        }
        match try_path(&path) {
            Err(error) if error.raw_os_error() == Some(Errno::ACCESS.raw_os_error()) => {
                refused = Errno::ACCESS;
            }
            Err(error) if is_missing(&error) => {}
            other => return other,
        }
    }
    Err(refused.into())
}

/// Whether programs of the sandbox could have changed the file that a start would execute.
pub(crate) fn is_changeable(request: &Execute) -> bool {
    let is_writable = |path: &str| rustix::fs::access(path, Access::WRITE_OK).is_ok();
    let name = request.program.as_str();
    if name.contains('/') {
        return is_writable(name);
    }
    let places = search_path(request).split(':').map(|folder| format!("{folder}/{name}"));
    let mut places = places.skip_while(|path| rustix::fs::access(path, Access::EXISTS).is_err());
    places.next().is_none_or(|path| is_writable(&path))
}

fn search_path(request: &Execute) -> &str {
    let path = request.environment.iter().rev().find(|(name, _)| name.as_str() == "PATH");
    path.map_or(DEFAULT_PATH, |(_, value)| value.as_str())
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn instructions(filter: &Filter) -> Vec<Instruction> {
    let instructions = filter.instructions.iter();
    instructions.map(|&(code, jt, jf, k)| Instruction { code, jt, jf, k }).collect()
}

fn environment(request: &Execute) -> io::Result<Vec<CString>> {
    let pairs = request.environment.iter();
    pairs
        .map(|(name, value)| Ok(CString::new(format!("{}={}", name.as_str(), value.as_str()))?))
        .collect()
}

/// Starts a program that the OOM killer prefers to the guest. A child inherits its parent's current
/// `oom_score_adj`, and no process inside can lower it.
fn as_victim<T>(oom_score: Option<&File>, start: impl FnOnce() -> T) -> T {
    const PROGRAM: &[u8] = b"500";
    const GUEST: &[u8] = b"0";
    // Without a score the kernel chooses by size, which usually selects the program too.
    let set = |score| oom_score.map(|mut file| file.write_all(score));
    set(PROGRAM);
    let started = start();
    set(GUEST);
    started
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
