//! Sessions that `stockade create` makes for a measurement, used over their sockets from this
//! process: what every client does, without the start of a client.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::Value;
use stockade_api::{
    ContextParams, ExecuteParams, Frame, ProgramParams, Reply, Request, RunInContextParams,
    read_frame, write_frame,
};
use stockade_supervisor::{SessionName, State, connect};
use tokio::runtime::{Builder, Runtime};

use super::directory::Directory;
use super::samples::timed;

/// How long the supervisor of a removed session may take to end.
const GONE: Duration = Duration::from_secs(20);

/// The sessions of one row, in a state directory of their own. Dropping it ends them.
pub(super) struct Sessions {
    stockade: PathBuf,
    directory: Directory,
    state: State,
    runtime: Runtime,
}

/// One session.
pub(super) struct Session {
    pub(super) name: SessionName,
    /// The process that holds it.
    pub(super) supervisor: u32,
}

impl Sessions {
    pub(super) fn new(stockade: &Path, row: &str) -> anyhow::Result<Sessions> {
        let directory = Directory::new(row)?;
        Ok(Sessions {
            stockade: stockade.to_owned(),
            state: State::open(&directory.path().join("state"))?,
            runtime: Builder::new_current_thread().enable_all().build()?,
            directory,
        })
    }

    /// Creates a session; `words` are further options.
    pub(super) fn create(&self, words: &[&str]) -> anyhow::Result<Session> {
        let mut command = self.command(&["--json", "create", "--record"]);
        command.arg(self.directory.path()).args(words);
        let created = self.output(command)?;
        let view: Value = serde_json::from_slice(&created.stdout)?;
        let name = view["name"].as_str().context("the new session has no name")?;
        let supervisor =
            view["supervisor"].as_u64().context("the new session has no supervisor")?;
        Ok(Session { name: SessionName::parse(name)?, supervisor: u32::try_from(supervisor)? })
    }

    /// The directory of the row.
    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A session that another command created.
    pub(super) fn named(&self, name: &str) -> anyhow::Result<Session> {
        let inspected = self.output(self.command(&["inspect", name]))?;
        let view: Value = serde_json::from_slice(&inspected.stdout)?;
        let supervisor = view[0]["supervisor"].as_u64().context("the session has no supervisor")?;
        Ok(Session { name: SessionName::parse(name)?, supervisor: u32::try_from(supervisor)? })
    }

    /// Sends a request and receives its reply.
    pub(super) fn reply(&self, session: &Session, request: Request) -> anyhow::Result<Reply> {
        self.runtime.block_on(async {
            let mut stream = connect(&self.state.socket(&session.name)?)?;
            write_frame(&mut stream, &Frame::Request(request)).await?;
            match read_frame(&mut stream).await? {
                Frame::Reply(reply) => Ok(reply),
                other => bail!("the session answered with {other:?}"),
            }
        })
    }

    /// A command line that uses these sessions.
    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.stockade);
        command.args(words).stdin(Stdio::null());
        command.env("STOCKADE_STATE", self.directory.path().join("state"));
        command
    }

    /// The output of a command that must succeed.
    pub(super) fn output(&self, mut command: Command) -> anyhow::Result<Output> {
        let output = command.output().context("cannot start this program again")?;
        if !output.status.success() {
            let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            bail!("`stockade {}` ended with {}: {said}", words.join(" "), output.status);
        }
        Ok(output)
    }

    /// Time from asking for a program to its end, in milliseconds.
    pub(super) fn execute(&self, session: &Session, what: &What<'_>) -> anyhow::Result<f64> {
        Ok(timed(|| self.runtime.block_on(self.executed(session, what)))?.0)
    }

    async fn executed(&self, session: &Session, what: &What<'_>) -> anyhow::Result<()> {
        let (request, code, prints) = what.parts();
        let mut stream = connect(&self.state.socket(&session.name)?)?;
        write_frame(&mut stream, &Frame::Request(request)).await?;
        if let Some(code) = code {
            write_frame(&mut stream, &Frame::Code(code.as_bytes().to_vec())).await?;
            write_frame(&mut stream, &Frame::CodeEnd).await?;
        }
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let (exit, report) = loop {
            match read_frame(&mut stream).await? {
                Frame::Output(bytes) => stdout.extend(bytes),
                Frame::Error(bytes) => stderr.extend(bytes),
                Frame::Reply(Reply::Started { .. }) => {}
                Frame::Reply(Reply::Ended { code, report }) => break (code, report),
                other => bail!("the session answered with {other:?}"),
            }
        };
        if exit != 0 || stdout != prints.as_bytes() {
            let [stdout, stderr] = [&stdout, &stderr].map(|it| String::from_utf8_lossy(it));
            bail!("the program ended with {exit} and printed {stdout:?}, {stderr:?}: {report}");
        }
        Ok(())
    }

    /// Removes a session and returns how long the caller waits, in milliseconds.
    pub(super) fn remove(&self, session: &Session) -> anyhow::Result<f64> {
        let removed = async {
            let mut stream = connect(&self.state.socket(&session.name)?)?;
            write_frame(&mut stream, &Frame::Request(Request::Remove { force: true })).await?;
            match read_frame(&mut stream).await? {
                Frame::Reply(Reply::Done) => Ok(()),
                other => bail!("the session answered with {other:?}"),
            }
        };
        Ok(timed(|| self.runtime.block_on(removed))?.0)
    }

    /// Removes a session and returns the time until its supervisor has ended, in milliseconds:
    /// until then something of the sandbox may be left.
    pub(super) fn end(&self, session: &Session) -> anyhow::Result<f64> {
        let supervisor = process(session.supervisor)?;
        let ended = || {
            self.remove(session)?;
            wait_for_end(&supervisor)
        };
        Ok(timed(ended)?.0)
    }
}

/// A process of this machine, also after its id is another's.
fn process(id: u32) -> anyhow::Result<OwnedFd> {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw).context("this is no process id")?;
    Ok(pidfd_open(id, PidfdFlags::empty())?)
}

fn wait_for_end(process: &OwnedFd) -> anyhow::Result<()> {
    let limit = Timespec { tv_sec: GONE.as_secs() as i64, tv_nsec: 0 };
    match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&limit))? {
        0 => bail!("the supervisor of a removed session went on for {GONE:?}"),
        _ => Ok(()),
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        let left = self.state.list().unwrap_or_default();
        let left: Vec<_> = left.iter().flat_map(|session| process(session.supervisor)).collect();
        // A session that stays ends by itself, because it is idle.
        let _ = self.output(self.command(&["prune", "--force"]));
        // Until then a supervisor writes to the directory of the records.
        for supervisor in left {
            let _ = wait_for_end(&supervisor);
        }
    }
}

/// What to run, and what it prints.
pub(super) enum What<'w> {
    Command(&'w [&'w str]),
    Python {
        code: &'w str,
        prints: &'w str,
    },
    /// Code in a context, which the first call starts.
    Context {
        code: &'w str,
        prints: &'w str,
    },
}

impl What<'_> {
    fn parts(&self) -> (Request, Option<&str>, &str) {
        match self {
            What::Command(argv) => {
                let argv = argv.iter().map(|word| (*word).to_owned()).collect();
                (execute(ProgramParams::Command { argv }), None, "")
            }
            What::Python { code, prints } => {
                let (language, name) = ("python".to_owned(), "main.py".to_owned());
                let program = ProgramParams::Code { language, name, arguments: Vec::new() };
                (execute(program), Some(code), prints)
            }
            What::Context { code, prints } => {
                let params = RunInContextParams {
                    name: "bench".to_owned(),
                    language: "python".to_owned(),
                    ..RunInContextParams::default()
                };
                (Request::Context(ContextParams::Run(params)), Some(code), prints)
            }
        }
    }
}

fn execute(program: ProgramParams) -> Request {
    Request::Execute(ExecuteParams {
        program,
        environment: Vec::new(),
        credentials: Vec::new(),
        working_directory: None,
        timeout_ms: None,
        terminal: None,
        detach: false,
        input: false,
    })
}
