//! The sandboxes of one client, each held by a supervisor.
//!
//! ```text
//! create ── a supervisor, with a tether ──▶ open ── close, or the end of the client ──▶ ended
//!                                            └── its lifetime, idle time or loss ──▶ ended
//! ```

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use serde_json::Value;
use stockade_api::{Reply, Request, SessionView};
use stockade_engine::Passage;
use stockade_policy::{MAX_TEXT_BYTES, Policy};
use stockade_supervisor::SessionName;

use super::state::Made;
use crate::args::McpArgs;
use crate::run::image::Messages;
use crate::run::narrowing::{Limits, Narrowing, PolicyFile};
use crate::run::request::{self, Extras, ImageChoice};
use crate::run::tools::Offered;
use crate::sessions::client;
use crate::sessions::create::Start;
use crate::sessions::terms::Terms;
use crate::{Problem, load};

/// How long the supervisors may take to end everything after the client has left.
const LAST: Duration = Duration::from_secs(10);

/// How much of a supervisor's error is read.
const MOST_ERROR_BYTES: u64 = 1 << 20;

/// The sandboxes of one client.
pub(super) struct Sandboxes {
    args: Arc<McpArgs>,
    argv: Vec<OsString>,
    /// The policy files, read once.
    files: Option<Vec<PolicyFile>>,
    /// What the arguments allow at most.
    most: Arc<Policy>,
    open: Mutex<BTreeMap<String, Slot>>,
}

/// A sandbox, or the place for one that is being created.
enum Slot {
    Reserved,
    Open(Open),
}

struct Open {
    policy: Arc<Policy>,
    supervisor: Child,
    made: Made,
    /// Closing it ends the sandbox, unless sandboxes are kept.
    _tether: UnixStream,
}

/// What a client asks of a new sandbox.
#[derive(Clone, Default)]
pub(super) struct Asked {
    pub(super) name: Option<String>,
    pub(super) policy: Option<String>,
    pub(super) limits: Limits,
}

impl Sandboxes {
    /// Checks the arguments as far as that is possible without a sandbox.
    pub(super) fn new(args: McpArgs, mut argv: Vec<OsString>) -> anyhow::Result<Sandboxes> {
        let is_stream = |file: &Path| load::is_standard_input(file) || load::is_descriptor(file);
        if let Some(file) = args.sandbox.texts().find(|file| is_stream(file)) {
            let message = format!("{} can be read only once", file.display());
            return Err(Problem::new(message, "name a file: each sandbox reads it").into());
        }
        let files = args.sandbox.policy.iter().map(|file| PolicyFile::read(file));
        let files: Vec<PolicyFile> = files.collect::<Result<_, _>>()?;
        let files = Some(files).filter(|files| !files.is_empty());
        let narrowing = Narrowing { files: files.clone(), ..Narrowing::default() };
        let here = load::here()?;
        let offered = Offered::read(&args.sandbox.tools, &here)?;
        let most = request::policy(&args.sandbox, Passage::Allowed, &narrowing, &offered, &here)?;
        // Everything else in the arguments that can be wrong.
        let extras = Extras { narrowing, observer: None };
        let entry = stockade_provider::EntryProgram::Program("python3".to_owned());
        let choice = ImageChoice { found: None, entry: &entry, messages: Messages::Hidden };
        request::session(&args.sandbox, choice, Passage::Allowed, extras)?;
        // A supervisor that fails prints its error as JSON.
        argv.insert(1.min(argv.len()), "--json".into());
        let open = Mutex::default();
        Ok(Sandboxes { args: Arc::new(args), argv, files, most: Arc::new(most), open })
    }

    /// What no sandbox can exceed.
    pub(super) fn most(&self) -> &Policy {
        &self.most
    }

    /// Creates a sandbox. Blocks until it can be used.
    pub(super) fn create(&self, asked: Asked) -> anyhow::Result<SessionView> {
        let Asked { name, policy, limits } = asked;
        if policy.as_ref().is_some_and(|text| text.len() > MAX_TEXT_BYTES) {
            let message = format!("the policy is longer than {MAX_TEXT_BYTES} bytes");
            return Err(Problem::new(message, "write a shorter policy").into());
        }
        let narrowing = Narrowing { files: self.files.clone(), policy, limits };
        // Finds mistakes before anything is started.
        let policy = narrowing.narrowed(Policy::clone(&self.most), &load::here()?)?;
        let name = match name {
            Some(name) => SessionName::parse(&name).map_err(|error| client::refused(&error))?,
            None => SessionName::random()?,
        };
        let name = name.as_str().to_owned();
        let reserved = self.reserve(&name)?;
        let terms = Terms { name: Some(name), narrowing, is_tethered: !self.args.keep };
        let (view, open) = self.started(&terms, policy)?;
        reserved.open(open);
        Ok(view)
    }

    /// Starts a supervisor and waits until it holds its session.
    fn started(&self, terms: &Terms, policy: Policy) -> anyhow::Result<(SessionView, Open)> {
        // A pipe could fill up while we wait for the answer.
        let said = File::from(memfd_create("error", MemfdFlags::CLOEXEC)?);
        let out = said.try_clone()?;
        let start = Start { argv: &self.argv, terms, descriptor: None };
        let (supervisor, mut tether) = start.supervisor(&self.args.sandbox, |command| {
            command.stdout(Stdio::from(out)).stderr(Stdio::null())
        })?;
        let mut text = Vec::new();
        // A supervisor that was killed may reset the connection; its message has more detail.
        let _ = tether.read_to_end(&mut text);
        match serde_json::from_slice::<SessionView>(&text) {
            Ok(view) => {
                let made = Made::new(&view.name, self.args.keep);
                let policy = Arc::new(policy);
                Ok((view, Open { policy, supervisor, made, _tether: tether }))
            }
            Err(_) => Err(failed(supervisor, said).into()),
        }
    }

    /// Takes a place for a sandbox that will be created.
    fn reserve(&self, name: &str) -> anyhow::Result<Reserved<'_>> {
        let mut open = self.lock();
        sweep(&mut open);
        let most = usize::from(self.args.max_sandboxes);
        if open.len() >= most {
            let message = format!("this server has {most} sandboxes, and no more are allowed");
            let remedy = "close one with close_sandbox; list_sandboxes lists them";
            return Err(Problem::new(message, remedy).into());
        }
        if open.contains_key(name) {
            let message = format!("a sandbox named {name} exists already");
            return Err(Problem::new(message, "use it, or choose another name").into());
        }
        open.insert(name.to_owned(), Slot::Reserved);
        Ok(Reserved { sandboxes: self, name: Some(name.to_owned()) })
    }

    /// The sandboxes that can be used, by name.
    pub(super) fn names(&self) -> Vec<String> {
        let mut open = self.lock();
        sweep(&mut open);
        let is_open = |entry: &Slot| matches!(entry, Slot::Open(_));
        open.iter().filter(|(_, entry)| is_open(entry)).map(|(name, _)| name.clone()).collect()
    }

    /// The policy of a sandbox. Other sessions of this user are none of this server's: their
    /// policies may allow more.
    pub(super) fn policy(&self, name: &str) -> Result<Arc<Policy>, Problem> {
        self.used(name, |open| Arc::clone(&open.policy))
    }

    /// Uses the checkpoints that this server made of a sandbox.
    pub(super) fn made<R>(
        &self,
        name: &str,
        uses: impl FnOnce(&mut Made) -> R,
    ) -> Result<R, Problem> {
        self.used(name, |open| uses(&mut open.made))
    }

    fn used<R>(&self, name: &str, uses: impl FnOnce(&mut Open) -> R) -> Result<R, Problem> {
        let mut open = self.lock();
        let had = open.contains_key(name);
        sweep(&mut open);
        match open.get_mut(name) {
            Some(Slot::Open(open)) => Ok(uses(open)),
            Some(Slot::Reserved) => {
                let message = format!("sandbox {name:?} is being created");
                Err(Problem::new(message, "wait for the answer of create_sandbox"))
            }
            None if had => {
                let message =
                    format!("sandbox {name:?} has ended: its lifetime or idle time was over");
                Err(Problem::new(message, "create another one with create_sandbox"))
            }
            None => {
                let message = format!("this server has no sandbox {name:?}");
                let remedy = "list_sandboxes lists those it has; create_sandbox creates one";
                Err(Problem::new(message, remedy))
            }
        }
    }

    /// Asks a sandbox.
    pub(super) async fn ask(&self, name: &str, request: Request) -> anyhow::Result<Reply> {
        self.policy(name)?;
        client::ask(name, request).await
    }

    /// Forgets a sandbox that was removed. Its supervisor has ended everything inside.
    pub(super) fn forget(&self, name: &str) {
        let removed = self.lock().remove(name);
        if let Some(Slot::Open(Open { mut supervisor, made, _tether, .. })) = removed {
            drop(_tether);
            drop(made);
            // Reaps it; it removes the last of the sandbox meanwhile.
            std::thread::spawn(move || supervisor.wait());
        }
    }

    /// Ends all sandboxes and waits until nothing of them is left, unless they are kept.
    pub(super) fn end(&self) {
        let open = std::mem::take(&mut *self.lock());
        if self.args.keep {
            return;
        }
        let closed = open.into_values().filter_map(|entry| match entry {
            Slot::Open(Open { supervisor, made, _tether, .. }) => Some((supervisor, made)),
            Slot::Reserved => None,
        });
        // All tethers are closed before the first wait.
        let closed: Vec<(Child, Made)> = closed.collect();
        let deadline = Instant::now() + LAST;
        // The checkpoints go last: one may be in the making.
        for (mut supervisor, _made) in closed {
            while matches!(supervisor.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Slot>> {
        // No critical section leaves the map inconsistent.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets sandboxes whose supervisor has ended, and reaps it.
fn sweep(open: &mut BTreeMap<String, Slot>) {
    open.retain(|_, entry| match entry {
        Slot::Open(open) => matches!(open.supervisor.try_wait(), Ok(None)),
        Slot::Reserved => true,
    });
}

/// A place in the table, free again unless a sandbox takes it.
struct Reserved<'s> {
    sandboxes: &'s Sandboxes,
    name: Option<String>,
}

impl Reserved<'_> {
    fn open(mut self, open: Open) {
        if let Some(name) = self.name.take() {
            let mut table = self.sandboxes.lock();
            // The table is empty if the client has left meanwhile; the tether is then closed here.
            if table.contains_key(&name) {
                table.insert(name, Slot::Open(open));
            }
        }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            self.sandboxes.lock().remove(&name);
        }
    }
}

/// Why a supervisor failed, as it printed it.
fn failed(mut supervisor: Child, mut said: File) -> Problem {
    let _ = supervisor.wait();
    let mut text = String::new();
    let read = said.rewind().and_then(|()| said.take(MOST_ERROR_BYTES).read_to_string(&mut text));
    let said: Option<Value> = read.ok().and_then(|_| serde_json::from_str(&text).ok());
    let Some(said) = said else {
        let message = "the supervisor of the sandbox ended before the sandbox existed";
        return Problem::new(message, "try again; nothing of the sandbox is left");
    };
    let part = |key: &str| said["error"][key].as_str().unwrap_or_default().to_owned();
    Problem::new(part("message"), part("remedy"))
}
