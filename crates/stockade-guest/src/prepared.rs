//! An interpreter that is started before its code arrives.
//!
//! ```text
//!        the announced execution has ended, nothing runs            its code arrives
//! empty ─────────────────────────────────────────────────▶ waiting ─────────────────▶ a program
//!   ▲                                                         │
//!   └───────────── any other program starts: it is killed ◀───┘
//! ```
//! It is an ordinary start of the interpreter with the path of the next code file, which is a FIFO:
//! the interpreter starts completely, and then waits for the first byte of its code. So it runs the
//! code exactly as usual, and runs nothing else before or after. No program ever runs while it
//! waits, so no program can change it.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::process::Pid;
use stockade_wire::{CodeFile, Execute};

use crate::code::make_folder;
use crate::execution::State;
use crate::processes::HeldBy;
use crate::program::{Settings, is_changeable, start};
use crate::reactor::Descriptor;
use crate::stdio::{self, Ours};

const CHUNK_BYTES: usize = 64 << 10;

/// The prepared interpreter of a sandbox, and the execution to prepare the next for.
#[derive(Default)]
pub(crate) struct Preparation {
    next: RefCell<Option<Execute>>,
    waiting: RefCell<Option<Prepared>>,
}

impl Preparation {
    /// Whether an interpreter waits for the code of this execution.
    pub(crate) fn is_for(&self, request: &Execute) -> bool {
        self.waiting.borrow().as_ref().is_some_and(|waiting| waiting.is_for(request))
    }

    /// Kills an interpreter that cannot be used for this execution, before it starts: no program
    /// may run while an interpreter waits.
    pub(crate) fn make_way(&self, request: &Execute, is_plain: bool, state: &State) {
        let is_useless = |waiting: &mut Prepared| !is_plain || !waiting.is_for(request);
        if let Some(waiting) = self.waiting.borrow_mut().take_if(is_useless) {
            waiting.discard(state);
        }
    }

    /// Takes the interpreter that waits for this execution, which starts now. Kills one that waits
    /// for another, which was started since the way was clear.
    pub(crate) fn take(&self, request: &Execute, state: &State) -> Option<Prepared> {
        self.next.replace(next(request));
        let waiting = self.waiting.take()?;
        if waiting.is_for(request) {
            return Some(waiting);
        }
        waiting.discard(state);
        None
    }

    /// Starts the interpreter for the next execution, if it is known and nothing runs. Without one,
    /// the execution starts as usual.
    pub(crate) fn start(&self, state: &State) {
        let is_known = self.next.borrow().is_some() && self.waiting.borrow().is_none();
        if is_known
            && state.processes.may_wait()
            && let Some(next) = self.next.take()
            && !runs_code_of_programs(&next)
        {
            *self.waiting.borrow_mut() = Prepared::start(next, state).ok();
        }
    }
}

/// An interpreter that waits for its code.
pub(crate) struct Prepared {
    request: Execute,
    process: Pid,
    streams: Ours,
    /// Keeps the FIFO open, so that neither opening it nor its end comes too early.
    keeper: OwnedFd,
    writer: Descriptor,
}

impl Prepared {
    fn start(request: Execute, state: &State) -> io::Result<Prepared> {
        let path = Path::new(request.code.as_ref().map_or("", |code| code.path.as_str()));
        make_folder(path)?;
        rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        let started = || {
            let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let open = |access| rustix::fs::open(path, flags | access, Mode::empty());
            let keeper = open(OFlags::RDWR)?;
            let writer = Descriptor::new_nonblocking(open(OFlags::WRONLY)?, &state.reactor);
            let (theirs, streams) = stdio::pipes(&state.reactor)?;
            let leaf = match (request.leaf, &state.leaves) {
                (Some(number), Some(leaves)) => leaves.copy(number)?,
                // The guest's own cgroup, until the execution and its leaf are known.
                _ => Vec::new(),
            };
            let settings = Settings {
                open_files: state.program_files,
                oom_score: state.oom_score.as_deref(),
                cgroups: &leaf,
                needs_keeper: false,
            };
            let (process, _) = start(&request, &theirs, settings)
                .map_err(|failed| io::Error::from_raw_os_error(failed.errno))?;
            state.processes.wait_with(process);
            Ok((process, streams, keeper, writer))
        };
        let started: io::Result<_> = started();
        let (process, streams, keeper, writer) = started.inspect_err(|_| remove_fifo(&request))?;
        Ok(Prepared { request, process, streams, keeper, writer })
    }

    /// Whether this request differs from the announced one in nothing that a program could see.
    fn is_for(&self, request: &Execute) -> bool {
        let path = |request: &Execute| request.code.as_ref().map(|code| code.path.clone());
        let own = &self.request;
        request.terminal.is_none()
            && path(request) == path(own)
            && request.program == own.program
            && request.arguments == own.arguments
            && request.environment == own.environment
            && request.working_directory == own.working_directory
            && request.filters == own.filters
    }

    /// Moves the interpreter into the cgroups of `leaf`, unless it waits there, passes the code,
    /// which is also at its path by now, and returns the streams of the program. None if the
    /// interpreter has ended or cannot be moved.
    pub(crate) fn run(
        self,
        request: &Execute,
        code: File,
        leaf: &[OwnedFd],
        state: &State,
    ) -> Option<Ours> {
        let execution = request.execution;
        let is_there = self.request.leaf.is_some() && self.request.leaf == request.leaf;
        if !is_there && enter(leaf, self.process).is_err() {
            self.discard(state);
            return None;
        }
        // No other program runs, so it needs no keeper.
        let held = if leaf.is_empty() { HeldBy::Nothing } else { HeldBy::Leaf };
        if !state.processes.lead_waiting(execution, self.process, held) {
            return None;
        }
        // If the interpreter has not opened the FIFO yet, it opens the file in its place. Then
        // nothing reads the FIFO, and writing fails with EPIPE.
        drop(self.keeper);
        let processes = Rc::clone(&state.processes);
        state.reactor.spawn(async move {
            if pass(code, &self.writer).await.is_err() {
                // Never run a part of the code.
                processes.kill(execution);
            }
        });
        Some(self.streams)
    }

    pub(crate) fn discard(self, state: &State) {
        state.processes.kill_waiting();
        remove_fifo(&self.request);
    }
}

/// Moves a process into cgroups, before it runs code of the execution that they belong to.
fn enter(cgroups: &[OwnedFd], process: Pid) -> io::Result<()> {
    let process = process.as_raw_nonzero().to_string();
    for cgroup in cgroups {
        rustix::io::write(cgroup, process.as_bytes())?;
    }
    Ok(())
}

/// Copies the code to the FIFO, as long as a process reads it. Fails if the code cannot be read;
/// the interpreter then waits for the rest until `writer` is dropped, which is after this function.
async fn pass(mut code: File, writer: &Descriptor) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES];
    code.rewind()?;
    loop {
        let read = code.read(&mut buffer)?;
        if read == 0 || writer.write_all(&buffer[..read]).await.is_err() {
            return Ok(());
        }
    }
}

fn remove_fifo(request: &Execute) {
    let Some(CodeFile { path, .. }) = &request.code else { return };
    let is_fifo = |found: fs::Metadata| found.file_type().is_fifo();
    if fs::symlink_metadata(path.as_str()).is_ok_and(is_fifo) {
        // If it stays, the next code file at this path cannot be written, which that reports.
        let _ = fs::remove_file(path.as_str());
    }
}

/// The execution that this one announces: the same, with the code at another path and in another
/// leaf. Only with a cgroup leaf: without one, the guest tells executions apart by the parents of
/// their processes, and the parent of a waiting interpreter is the guest.
fn next(request: &Execute) -> Option<Execute> {
    request.leaf?;
    let (path, code) = (request.next_code.as_ref()?, request.code.as_ref()?);
    let mut next = request.clone();
    let argument = next.arguments.get_mut(1).filter(|argument| **argument == code.path)?;
    *argument = path.clone();
    next.code = Some(CodeFile { path: path.clone(), bytes: 0 });
    next.next_code = None;
    (next.leaf, next.next_leaf) = (request.next_leaf, None);
    next.terminal.is_none().then_some(next)
}

/// Whether the start of the interpreter could run code of the sandbox's programs, which belongs
/// into an execution: it is changeable itself, a variable names such code, or the user's directory
/// of packages exists.
fn runs_code_of_programs(request: &Execute) -> bool {
    const PACKAGES: &str = ".local";
    let names_code =
        |name: &str| name.starts_with("PYTHON") || matches!(name, "LD_PRELOAD" | "LD_AUDIT");
    let mut environment = request.environment.iter();
    let home = environment.clone().find(|(name, _)| name.as_str() == "HOME");
    let has_packages =
        home.is_none_or(|(_, home)| Path::new(home.as_str()).join(PACKAGES).exists());
    environment.any(|(name, _)| names_code(name.as_str())) || has_packages || is_changeable(request)
}

#[cfg(test)]
mod tests {
    use stockade_wire::{Text, WindowSize};

    use super::*;

    fn text(text: &str) -> Text {
        Text::try_from(text).unwrap()
    }

    fn request(program: &str, variables: &[(&str, &str)]) -> Execute {
        let variable = |(name, value): &(&str, &str)| (text(name), text(value));
        Execute {
            execution: 7,
            program: text(program),
            arguments: [program, "/code/7/main.py", "word"].map(text).to_vec(),
            environment: variables.iter().map(variable).collect(),
            working_directory: text("/"),
            code: Some(CodeFile { path: text("/code/7/main.py"), bytes: 5 }),
            next_code: Some(text("/code/8/main.py")),
            terminal: None,
            filters: Vec::new(),
            leaf: Some(7),
            next_leaf: Some(9),
        }
    }

    #[test]
    fn next_execution_differs_only_in_its_path_and_leaf() {
        let request = request("python3", &[]);
        let expected = Execute {
            arguments: ["python3", "/code/8/main.py", "word"].map(text).to_vec(),
            code: Some(CodeFile { path: text("/code/8/main.py"), bytes: 0 }),
            next_code: None,
            leaf: Some(9),
            next_leaf: None,
            ..request.clone()
        };
        assert_eq!(next(&request), Some(expected));
        assert_eq!(next(&Execute { next_code: None, ..request.clone() }), None);
        assert_eq!(next(&Execute { leaf: None, ..request.clone() }), None);
        let size = WindowSize { columns: 80, rows: 24 };
        assert_eq!(next(&Execute { terminal: Some(size), ..request.clone() }), None);
        let other = ["python3", "-m", "main"].map(text).to_vec();
        assert_eq!(next(&Execute { arguments: other, ..request }), None);
    }

    #[test]
    fn interpreter_that_would_run_code_of_programs_is_not_prepared() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().to_str().unwrap();
        // A file that no process can write: on a read-only file system, or of the kernel.
        let fixed = "/proc/self/status";
        let with = |program: &str, more: &[(&str, &str)]| {
            let variables: Vec<_> = [("HOME", home)].iter().chain(more).copied().collect();
            runs_code_of_programs(&request(program, &variables))
        };
        let program = format!("{home}/python3");
        fs::write(&program, "").unwrap();
        assert!(with(&program, &[]), "the program can be changed");
        if !rustix::process::geteuid().is_root() {
            assert!(!with(fixed, &[("LANG", "C")]));
        }
        assert!(with(fixed, &[("PYTHONPATH", "/workspace")]));
        assert!(with(fixed, &[("LD_PRELOAD", "/workspace/a.so")]));
        assert!(runs_code_of_programs(&request(fixed, &[])), "the home is unknown");
        fs::create_dir(format!("{home}/.local")).unwrap();
        assert!(with(fixed, &[("LANG", "C")]));
    }
}
