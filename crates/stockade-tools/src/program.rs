//! A host program started for a tool, with all processes that it starts.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};

use rustix::fs::{Access, AtFlags, CWD};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncReadExt, Interest};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;

/// Variables that every host program gets.
pub(crate) const ORDINARY_VARIABLES: [&str; 6] = ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"];

/// The search path if `PATH` is not set, at the widest.
const DEFAULT_PATH: &str = "/usr/local/bin:/bin:/usr/bin";

/// What to start, without a shell.
#[derive(Clone)]
pub(crate) struct Program {
    /// A path, or a name to look up in `PATH`.
    pub(crate) file: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) directory: PathBuf,
    /// Its whole environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
}

impl Program {
    /// Starts it as the leader of its own process group. It does not outlive this process, even if
    /// this process is killed.
    pub(crate) fn start(&self) -> io::Result<(Group, Pipes)> {
        let mut command = Command::new(&self.file);
        command
            .args(&self.arguments)
            .current_dir(&self.directory)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        stockade_sys::kill_with_parent(command.as_std_mut());
        let mut child = spawn(command)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else {
            return Err(io::Error::other("a pipe is missing"));
        };
        let leader = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let leader = leader.ok_or_else(|| io::Error::other("the program has no process"))?;
        let group = Group { child, leader, status: None };
        Ok((group, Pipes { input, output, errors }))
    }
}

/// Why a program cannot be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// It is a path, and no file exists there.
    Path,
    /// It is a name, and no directory of `PATH` has it.
    Name,
    /// The file exists but cannot be executed.
    Executable,
}

impl Program {
    /// Whether it exists, searched as at its start. See execvp(3).
    pub(crate) fn is_installed(&self) -> Result<(), Missing> {
        let is_there = |path: PathBuf| match is_executable(&path) {
            true => Some(true),
            false => path.exists().then_some(false),
        };
        if self.file.as_os_str().as_encoded_bytes().contains(&b'/') {
            return match is_there(self.directory.join(&self.file)) {
                Some(true) => Ok(()),
                Some(false) => Err(Missing::Executable),
                None => Err(Missing::Path),
            };
        }
        let search_path = self.environment.iter().find(|(name, _)| name == "PATH");
        let search_path = search_path.map_or(OsStr::new(DEFAULT_PATH), |(_, value)| value);
        let folders = std::env::split_paths(search_path);
        let found = folders.map(|folder| is_there(self.directory.join(folder).join(&self.file)));
        match found.max().flatten() {
            Some(true) => Ok(()),
            Some(false) => Err(Missing::Executable),
            None => Err(Missing::Name),
        }
    }
}

/// Whether a path leads to a file that this process may execute.
pub(crate) fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

impl std::fmt::Debug for Program {
    /// Without the environment, which may hold secrets.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Program");
        shown.field("file", &self.file).field("arguments", &self.arguments).finish_non_exhaustive()
    }
}

/// The host's ends of a program's three pipes.
pub(crate) struct Pipes {
    pub(crate) input: ChildStdin,
    pub(crate) output: ChildStdout,
    pub(crate) errors: ChildStderr,
}

/// A program and the processes of its group. Dropping it kills all of them.
#[derive(Debug)]
pub(crate) struct Group {
    child: Child,
    leader: Pid,
    /// Its exit status, once it is reaped.
    status: Option<ExitStatus>,
}

impl Group {
    /// Waits for the program to exit, then kills what is left of its group.
    pub(crate) async fn end(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        // The group id stays ours only until its leader is reaped, so this waits for the exit
        // without reaping first.
        let handle: OwnedFd = pidfd_open(self.leader, PidfdFlags::NONBLOCK)?;
        let handle = watched(handle)?;
        let _ = handle.readable().await?;
        self.kill();
        let status = self.child.wait().await?;
        self.status = Some(status);
        Ok(status)
    }

    /// Kills the program and its group.
    pub(crate) fn kill(&self) {
        if self.status.is_none() {
            // Fails only if no process is left.
            let _ = kill_process_group(self.leader, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A command to start, the runtime to register it with, and where to send the outcome.
type Wanted = (Command, Handle, mpsc::Sender<io::Result<Child>>);

/// Starts a command on a thread that never exits: PR_SET_PDEATHSIG fires when the thread that
/// started the program exits, and threads of a runtime come and go.
fn spawn(command: Command) -> io::Result<Child> {
    let runtime = Handle::try_current().map_err(io::Error::other)?;
    let (sender, answer) = mpsc::channel();
    let gone = || io::Error::other("the thread that starts programs is gone");
    starter()?.send((command, runtime, sender)).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

/// The channel to that thread, which starts with the first program.
fn starter() -> io::Result<mpsc::Sender<Wanted>> {
    static STARTER: Mutex<Option<mpsc::Sender<Wanted>>> = Mutex::new(None);
    let mut starter = STARTER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(starter) = &*starter {
        return Ok(starter.clone());
    }
    let (sender, wanted) = mpsc::channel::<Wanted>();
    let start = move || {
        for (mut command, runtime, answer) in wanted {
            let _entered = runtime.enter();
            // If the caller has stopped waiting, dropping the child kills it.
            let _ = answer.send(command.spawn());
        }
    };
    std::thread::Builder::new().name("tool-starter".to_owned()).spawn(start)?;
    Ok(starter.insert(sender).clone())
}

#[expect(
    deprecated,
    reason = "sound for an OwnedFd, whose descriptor stays open and the same; its successor is unsafe"
)]
fn watched(handle: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(handle, Interest::READABLE)
}

/// Reads to the end, or stops one byte after `most`. Keeps what it has read, even if the future is
/// dropped.
pub(crate) async fn read_up_to(
    reader: impl AsyncRead + Unpin,
    most: usize,
    held: &mut Vec<u8>,
) -> io::Result<()> {
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    reader.take(limit).read_to_end(held).await?;
    Ok(())
}

/// Reads to the end and keeps only the last bytes.
pub(crate) async fn read_tail(mut reader: impl AsyncRead + Unpin, keep: usize, held: &mut Vec<u8>) {
    let mut buffer = vec![0; keep];
    while let Ok(read @ 1..) = reader.read(&mut buffer).await {
        held.extend_from_slice(&buffer[..read]);
        if held.len() > keep {
            held.drain(..held.len() - keep);
        }
    }
}
