//! The traits of a wall.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use serde::Serialize;
use stockade_policy::{Limit, Policy};

use crate::{
    DecidedRequest, Error, ErrorKind, Execution, Files, Gateway, Language, Ports, ProviderName,
    Running, SandboxUsage, ToolAccess, WallFacts,
};

/// How long a wall on this host may take to build a sandbox. It is a thousand times the usual time:
/// only a hang, such as a file system whose server is gone, takes longer.
pub const MOST_START: Duration = Duration::from_secs(30);

/// How old cached facts may be: a host can change while a process runs for weeks.
pub const FACTS_AGE: Duration = Duration::from_secs(60);

/// An isolation backend.
///
/// Implementations refuse a policy they cannot enforce; they never run it weaker. Every
/// implementation passes the conformance suite.
pub trait Provider: Send + Sync {
    /// The wall's name.
    fn name(&self) -> ProviderName;

    /// What this host allows the wall to enforce, from probing rather than from configuration. A
    /// wall may return cached facts that are no older than [`FACTS_AGE`].
    fn facts(&self, probe: Probe) -> BoxFuture<'_, WallFacts>;

    /// Prepares what a host needs once, such as compiling an interpreter, which may take a minute.
    /// Called before [`Provider::create`], which then is quick. Most walls need nothing.
    fn prepare(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    /// How long [`Provider::create`] may take. The caller then drops its future, which releases
    /// everything.
    fn most_start(&self) -> Duration {
        MOST_START
    }

    /// Builds an empty sandbox. Dropping the handle kills everything inside it.
    fn create<'a>(
        &'a self,
        request: &'a SandboxRequest,
    ) -> BoxFuture<'a, Result<Box<dyn Sandbox>, Error>>;
}

/// How much a wall does to find out what it can enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// What is known without building a wall. Building one for a run checks the rest: a step that
    /// fails refuses the run.
    Quick,
    /// Builds a temporary wall.
    Thorough,
}

/// What a sandbox is built for.
#[derive(Clone, Debug)]
pub struct SandboxRequest {
    /// What is allowed.
    pub policy: Arc<Policy>,
    /// The files at `/`.
    pub root: Root,
    /// The program that will be started in it, so that the wall makes it available.
    pub entry: EntryProgram,
    /// Host files that no program inside may change or replace, whatever the policy makes writable:
    /// the policy's own text.
    pub protected: Vec<PathBuf>,
    /// Where connections of programs go. Without it the sandbox has no egress.
    pub gateway: Option<Arc<dyn Gateway>>,
    /// The files and variables through which programs call tools; the gateway then serves tools.
    /// Without it there is no tool socket inside.
    pub tools: Option<ToolAccess>,
    /// The certificates that programs must trust, as PEM, because the gateway ends TLS with an
    /// authority of the session. The wall shows them inside, and names them in the variables of
    /// [`authority_variables`]. `None` if no connection is opened.
    ///
    /// [`authority_variables`]: crate::authority_variables
    pub authorities: Option<String>,
}

/// How a wall with more than one way started a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StartNote {
    /// The way, such as `booted`.
    pub how: &'static str,
    /// Why the faster way could not be used.
    pub because: Option<String>,
}

/// The files a sandbox starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// The wall's default: the host's programs and libraries, or the image's.
    Standard,
    /// An unpacked image or any other directory of the host, read-only.
    Directory(PathBuf),
    /// An image. A wall without images refuses it by name.
    Image(ImageRoot),
}

impl Root {
    /// The host directory whose files are at `/`, if there is one.
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Root::Standard => None,
            Root::Directory(directory) => Some(directory),
            Root::Image(image) => image.directory.as_deref(),
        }
    }

    /// The user and group that the caller chose among those of the image.
    pub fn user(&self) -> Option<(u32, u32)> {
        match self {
            Root::Standard | Root::Directory(_) => None,
            Root::Image(image) => image.user,
        }
    }
}

/// An image as root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageRoot {
    /// Its name or digest, as `docker run` takes it.
    pub reference: String,
    /// Its unpacked files, for a wall that starts from a directory of the host.
    pub directory: Option<PathBuf>,
    /// The user and group of programs, never root; `None` are the wall's own.
    pub user: Option<(u32, u32)>,
    /// The disk of a virtual machine, whose files are used instead of the image's; only its kernel
    /// is the image's.
    pub disk: Option<PathBuf>,
    /// Whether it has the PATH of the hardened image, so that stubs in it may report denied
    /// commands. A wall that reads the image itself ignores this.
    pub is_hardened: bool,
    /// The names of variables of the image that no program gets, for the record.
    pub dropped_variables: Vec<String>,
}

impl ImageRoot {
    /// An image of an engine.
    pub fn named(reference: impl Into<String>) -> ImageRoot {
        ImageRoot { reference: reference.into(), ..ImageRoot::default() }
    }
}

/// The program that will be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryProgram {
    /// The interpreter of a language.
    Interpreter(Language),
    /// A program, by a name without slashes or a path inside.
    Program(String),
}

/// One running sandbox. Dropping it kills all processes inside; the remaining teardown continues in
/// the background, even if this process exits.
pub trait Sandbox: Send + Sync {
    /// Starts one program, concurrently with running ones. A wall limits how many run at once and
    /// refuses further ones by name.
    fn start(&self, execution: Execution) -> BoxFuture<'_, Result<Running, Error>>;

    /// The files inside. A wall without operations on files refuses by name.
    fn files(&self) -> Result<Arc<dyn Files>, Error>;

    /// The ports of servers inside. A wall without a loopback of its own refuses by name.
    fn ports(&self) -> Result<Arc<dyn Ports>, Error> {
        let error = Error::new(
            ErrorKind::Unenforceable,
            "this wall has no network of its own, and no program inside can open a port",
        );
        Err(error.with_remedy("use the wall native or docker"))
    }

    /// How the wall started the sandbox, if it has more than one way.
    fn start_note(&self) -> Option<StartNote> {
        None
    }

    /// How the wall isolates this sandbox, if it knew that less exactly before the start. It
    /// replaces the mechanism of the control `isolation` in the plan.
    fn isolation(&self) -> Option<String> {
        None
    }

    /// Resolves when a limit of the whole sandbox is exceeded that the kernel does not enforce; the
    /// caller then ends the sandbox. Never resolves otherwise.
    fn exceeded(&self) -> BoxFuture<'_, Limit>;

    /// Resolves when the sandbox has ended by itself or from outside, so that no program can start
    /// in it.
    fn lost(&self) -> BoxFuture<'_, ()>;

    /// Stops all programs until [`Sandbox::resume`]. Their time limits go on.
    fn pause(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// Stops the programs that run until [`Sandbox::resume`], while others start and run: a context
    /// protects itself meanwhile. Does nothing where no program can reach another at any time.
    /// Refused by walls without contexts.
    fn hold(&self) -> BoxFuture<'_, Result<(), Error>> {
        let error = Error::new(ErrorKind::Unenforceable, "this wall cannot stop single programs");
        Box::pin(std::future::ready(Err(error)))
    }

    /// Continues all programs.
    fn resume(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// What the sandbox used and which limits it reached, from the kernel. Called at any time, also
    /// after the end.
    fn observe(&self) -> BoxFuture<'_, SandboxUsage>;

    /// The requests to the network that the wall's own gate decided since the last call, oldest
    /// first. A wall whose connections pass the gateway has none.
    fn decided(&self) -> BoxFuture<'_, Vec<DecidedRequest>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// Kills all processes inside. Returns when the kill is sent.
    fn kill(&self) -> BoxFuture<'_, ()>;

    /// Ends the sandbox and waits until nothing of it is left on the host.
    fn end(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>>;
}
