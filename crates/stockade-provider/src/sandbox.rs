//! The traits of a wall.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use stockade_policy::{Limit, Policy};

use crate::{
    Error, Execution, Gateway, Language, ProviderName, Running, SandboxUsage, ToolAccess, WallFacts,
};

/// How old facts may be when a wall answers with them: a process that runs for weeks sees a host that
/// was changed.
pub const FACTS_AGE: Duration = Duration::from_secs(60);

/// An isolation backend.
///
/// Implementations refuse a policy they cannot enforce; they never run it weaker. Every
/// implementation passes the conformance suite.
pub trait Provider: Send + Sync {
    /// The wall's name.
    fn name(&self) -> ProviderName;

    /// What this host lets the wall enforce, from probing rather than from configuration. A wall
    /// may answer from what it found before, if that is no older than [`FACTS_AGE`].
    fn facts(&self, probe: Probe) -> BoxFuture<'_, WallFacts>;

    /// Builds an empty sandbox. Dropping the handle kills everything inside it.
    fn create<'a>(
        &'a self,
        request: &'a SandboxRequest,
    ) -> BoxFuture<'a, Result<Box<dyn Sandbox>, Error>>;
}

/// How much a wall does to find out what it can enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// What is known without building a wall. Building one then shows the rest: a step that fails
    /// refuses the run.
    Quick,
    /// Builds a throw-away wall.
    Thorough,
}

/// What a sandbox is built for.
#[derive(Clone, Debug)]
pub struct SandboxRequest {
    /// What is allowed.
    pub policy: Arc<Policy>,
    /// What stands at `/`.
    pub root: Root,
    /// What will be started in it, so that it can be.
    pub entry: Entry,
    /// Host files that nothing inside may change or replace, whatever the policy makes writable:
    /// the policy's own text.
    pub protected: Vec<PathBuf>,
    /// Where connections of programs go. Without one nothing leaves, and the wall has no way out.
    pub gateway: Option<Arc<dyn Gateway>>,
    /// What programs find of the tools they may call; the gateway then carries tools. Without it
    /// there is no socket inside.
    pub tools: Option<ToolAccess>,
}

/// The files a sandbox starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// The wall's own: the host's programs and libraries, or the image's.
    Standard,
    /// An unpacked image or any other directory of the host, read-only.
    Directory(PathBuf),
    /// An image by its reference, as `docker run` takes it. A wall without images refuses it by name.
    Image(String),
}

/// What will be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The interpreter of a language.
    Interpreter(Language),
    /// A program, by a bare name or a path inside.
    Program(String),
}

/// One running sandbox. Dropping it kills everything inside; what is then left to take down goes
/// on behind, whether or not this process stays.
pub trait Sandbox: Send + Sync {
    /// Starts one program, concurrently with those that run. As many may run at once as the wall
    /// allows; one more is refused by name.
    fn start(&self, execution: Execution) -> BoxFuture<'_, Result<Running, Error>>;

    /// Resolves when a limit of the whole sandbox was passed that the kernel does not hold by itself;
    /// the caller then ends the sandbox. Never resolves otherwise.
    fn exceeded(&self) -> BoxFuture<'_, Limit>;

    /// What the sandbox used and met so far, from the kernel. Called at any time, also after the end.
    fn observe(&self) -> BoxFuture<'_, SandboxUsage>;

    /// Kills everything inside. Returns when the kill is sent.
    fn kill(&self) -> BoxFuture<'_, ()>;

    /// Ends the sandbox and waits until nothing of it is left on the host.
    fn end(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>>;
}
