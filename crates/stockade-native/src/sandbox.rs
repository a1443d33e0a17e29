//! One running sandbox of the native wall.
//!
//! ```text
//! standing ── start ──▶ running ── its end ──▶ standing
//!     │                    │
//!     └────── kill, drop or end ──────▶ ending ── the launcher has taken all down ──▶ gone
//! ```
//! The launcher ends everything when its control socket is closed, whoever closes it and however:
//! dropping this value is enough, and so is the death of this process.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use futures_core::future::BoxFuture;
use rustix::process::Signal;
use stockade_carrier::{Command, Link};
use stockade_interpreters::Interpreter;
use stockade_launcher::Ending;
use stockade_policy::{Limit, SEARCH_PATH, WORKSPACE};
use stockade_provider::{
    Error, ErrorKind, Execution, Language, Observation, ProcessEnd, Program, Running, Sandbox,
    ToolDoor,
};
use stockade_watchdog::Aside;

use crate::error::StartError;
use crate::filters::ProgramFilters;
use crate::observe::{HostMeter, Watched, bounds};
use crate::plan::{CODE_DIRECTORY, WayOut, proxy_variables};
use crate::programs::Programs;
use crate::start::{Control, Deadline, Held, Launcher, Prepared, User, Wall};

/// Where a program finds what every sandbox has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) working_directory: String,
    /// Its home, and where temporary files go.
    pub(crate) home: String,
    /// Where code that was handed in lies.
    pub(crate) code: String,
}

impl Places {
    /// Those of a root of the sandbox's own.
    pub(crate) fn of_root() -> Places {
        Places {
            working_directory: WORKSPACE.to_owned(),
            home: "/tmp".to_owned(),
            code: CODE_DIRECTORY.to_owned(),
        }
    }
}

/// What a program finds inside.
pub(crate) struct Interior {
    pub(crate) interpreter: Option<Interpreter>,
    pub(crate) places: Places,
    /// Whether connections to the network can leave.
    pub(crate) way_out: WayOut,
    /// Variables that tell programs of tools, if they can call any.
    pub(crate) tools: Option<Vec<(String, String)>>,
    /// How many code files were named: executions at once must not replace each other's code.
    pub(crate) codes: AtomicU64,
    /// What the profiles of the policy are for it.
    pub(crate) filters: ProgramFilters,
}

/// One running sandbox.
pub(crate) struct NativeSandbox {
    control: Arc<Control>,
    link: Link,
    launcher: Option<Launcher>,
    /// The first process inside.
    first: OwnedFd,
    interior: Interior,
    deadline: Arc<Deadline>,
    watched: Watched,
    user: User,
}

impl NativeSandbox {
    pub(crate) fn new(wall: Wall, prepared: Prepared) -> Result<NativeSandbox, StartError> {
        let Prepared { listed, group, policy, interior, user, .. } = prepared;
        let (memory_held, cpu_held, pids_held) =
            (prepared.memory_held, prepared.cpu_held, prepared.pids_held);
        // Before anything is started: a process that starts a program waits for the answer.
        let programs = wall.programs.zip(listed).map(|(listener, listed)| {
            let watching = Programs::watch(listener, listed);
            watching.map_err(StartError::prepare("watch what is started"))
        });
        let programs = programs.transpose()?;
        let has_directory = prepared.scratch.is_some();
        let is_counted = memory_held && cpu_held && pids_held;
        let aside = (has_directory || !is_counted).then(|| {
            let bounds = (!is_counted).then(|| bounds(&policy));
            let (directory, policy) = (prepared.scratch, Arc::clone(&policy));
            let meter = HostMeter { first: wall.process, bounds, directory, policy, looks: 0 };
            Aside::start(meter).map_err(StartError::prepare("watch the sandbox"))
        });
        let watched = Watched {
            scratch: wall.scratch,
            programs,
            group,
            policy,
            aside: aside.transpose()?,
            has_directory,
            memory_held,
            cpu_held,
            pids_held,
            before_kill: OnceLock::new(),
            seen: Mutex::default(),
        };
        Ok(NativeSandbox {
            control: wall.control,
            link: wall.link,
            launcher: Some(wall.launcher),
            first: wall.handle,
            interior,
            deadline: wall.deadline,
            watched,
            user,
        })
    }

    /// Ends the sandbox and waits until the launcher has taken everything down.
    pub(crate) async fn finish(mut self) -> Result<(), StartError> {
        let cannot = || StartError::prepare("wait for the end of a sandbox");
        // Given up before the end, this is dropped, and the launcher is still waited for.
        self.control.ended().await.map_err(cannot())?;
        let Some(launcher) = self.launcher.take() else { return Ok(()) };
        match launcher.wait().map_err(cannot())? {
            status if status.success() => Ok(()),
            _ => match self.watched.group.take() {
                Some(group) => group.take_back().map_err(|_| StartError::Left),
                None => Err(StartError::Left),
            },
        }
    }

    /// A program that was started, with what the launcher knows of its end.
    async fn explained(
        &self,
        started: Result<Running, Error>,
        held: Option<Held>,
    ) -> Result<Running, Error> {
        let control = Arc::clone(&self.control);
        match started {
            Ok(Running { stdin, stdout, stderr, end }) => {
                let end = Box::pin(async move {
                    let end = explain(end.await, &control).await;
                    drop(held);
                    end
                });
                Ok(Running { stdin, stdout, stderr, end })
            }
            Err(error) if error.kind() == ErrorKind::Lost => {
                let end = explain(Err(error), &control).await?;
                Ok(gone(end))
            }
            Err(error) => Err(error),
        }
    }
}

impl Interior {
    pub(crate) fn command(&self, execution: Execution) -> Result<Command, Error> {
        let environment = self.environment(&execution.environment);
        let (program, arguments, code) = match execution.program {
            Program::Code { language, name, code, arguments } => {
                let name = plain(&name)?;
                let path = match self.codes.fetch_add(1, Ordering::Relaxed) {
                    0 => format!("{}/{name}", self.places.code),
                    number => format!("{}/{number}/{name}", self.places.code),
                };
                let program = self.interpreter_of(language);
                let words = [program.clone(), path.clone()];
                (program, words.into_iter().chain(arguments).collect(), Some((path, code)))
            }
            Program::Command { argv } => {
                let program = argv.first().cloned().unwrap_or_default();
                (program, argv, None)
            }
        };
        let working_directory = self.places.working_directory.clone();
        let filters = self.filters.filters.clone();
        Ok(Command { program, arguments, environment, working_directory, code, filters })
    }

    /// The name to start an interpreter by: the one that was found on the host, or in a root of
    /// one's own whatever is called so there.
    fn interpreter_of(&self, language: Language) -> String {
        match &self.interpreter {
            Some(found) if found.language == language => found.program.display().to_string(),
            _ => language.programs()[0].to_owned(),
        }
    }

    /// What every program inside finds, and what the caller adds or replaces.
    fn environment(&self, added: &[(String, String)]) -> Vec<(String, String)> {
        let mut path: Vec<String> = Vec::new();
        let mut variables = Vec::new();
        if let Some(found) = &self.interpreter {
            path.extend(found.program.parent().map(|directory| directory.display().to_string()));
            if !found.library_path.is_empty() {
                let places: Vec<String> =
                    found.library_path.iter().map(|place| place.display().to_string()).collect();
                variables.push(("LD_LIBRARY_PATH".to_owned(), places.join(":")));
            }
        }
        for directory in SEARCH_PATH {
            if !path.iter().any(|known| known == directory) {
                path.push(directory.to_owned());
            }
        }
        // Last: a program of the sandbox that has a name keeps it.
        path.extend(self.tools.as_ref().map(|_| ToolDoor::COMMANDS.to_owned()));
        variables.push(("PATH".to_owned(), path.join(":")));
        let home = self.places.home.as_str();
        for (name, value) in
            [("HOME", home), ("USER", "agent"), ("LANG", "C.UTF-8"), ("TMPDIR", home)]
        {
            variables.push((name.to_owned(), value.to_owned()));
        }
        if self.way_out == WayOut::Gateway {
            variables.extend(proxy_variables());
        }
        for (name, value) in self.tools.iter().flatten() {
            if !variables.iter().any(|(own, _)| own == name) {
                variables.push((name.clone(), value.clone()));
            }
        }
        variables.retain(|(name, _)| !added.iter().any(|(own, _)| own == name));
        variables.extend(added.iter().cloned());
        variables
    }
}

/// An end with what the launcher knows of it, where the stream to the guest was lost.
async fn explain(end: Result<ProcessEnd, Error>, control: &Control) -> Result<ProcessEnd, Error> {
    let is_lost = match &end {
        Ok(end) => matches!(end, ProcessEnd::SandboxEnded { .. }),
        Err(error) => error.kind() == ErrorKind::Lost,
    };
    if !is_lost {
        return end;
    }
    match control.ending().await {
        Some(Ending { signal: Some(signal), .. }) => {
            Ok(ProcessEnd::SandboxEnded { signal: Some(signal) })
        }
        _ => end,
    }
}

/// A program that does not run: the sandbox ended before it, or it cannot be started.
fn gone(end: ProcessEnd) -> Running {
    Running {
        stdin: Box::new(tokio::io::empty()),
        stdout: Box::new(tokio::io::empty()),
        stderr: Box::new(tokio::io::empty()),
        end: Box::pin(std::future::ready(Ok(end))),
    }
}

/// A file name and nothing else.
fn plain(name: &str) -> Result<&str, Error> {
    match Path::new(name).file_name().and_then(|last| last.to_str()) {
        Some(last) if last == name => Ok(name),
        _ => Err(Error::new(ErrorKind::Invalid, format!("{name:?} is not a plain file name"))),
    }
}

impl Sandbox for NativeSandbox {
    fn start(&self, execution: Execution) -> BoxFuture<'_, Result<Running, Error>> {
        Box::pin(async {
            let command = self.interior.command(execution)?;
            if let Some(call) = &self.interior.filters.refused_call {
                let (program, refused_call) = (command.program, Some(call.clone()));
                let errno = rustix::io::Errno::PERM.raw_os_error();
                return Ok(gone(ProcessEnd::NotStarted { errno, program, refused_call }));
            }
            let held = self.deadline.hold_timeout();
            let started = self.link.execute(command).map(|(_, running)| running);
            self.explained(started, held).await
        })
    }

    fn exceeded(&self) -> BoxFuture<'_, Limit> {
        Box::pin(self.watched.exceeded(&self.link))
    }

    fn observe(&self) -> Observation {
        self.watched.observe()
    }

    fn kill(&self) {
        self.watched.keep();
        // An error says that it has ended.
        let _ = rustix::process::pidfd_send_signal(&self.first, Signal::KILL);
        self.control.end();
    }

    fn end(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async { (*self).finish().await.map_err(Error::from) })
    }
}

impl Drop for NativeSandbox {
    fn drop(&mut self) {
        // First: whoever lets go of a file system last waits until it is taken down.
        self.watched.scratch = None;
        self.control.end();
        if let Some(launcher) = self.launcher.take() {
            launcher.leave(self.watched.group.take(), self.user);
        }
    }
}
