//! The traits of a wall.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use stockade_policy::{Denial, Limit, Policy};

use crate::{
    Error, Execution, Gateway, Language, ProviderName, Running, Surroundings, ToolDoor, WallFacts,
};

/// An isolation backend.
///
/// Implementations refuse a policy they cannot enforce; they never run it weaker. Every
/// implementation passes the conformance suite.
pub trait Provider: Send + Sync {
    /// The wall's name.
    fn name(&self) -> ProviderName;

    /// What this host lets the wall enforce, from probing rather than from configuration.
    fn facts(&self, probe: Probe) -> WallFacts;

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
    /// What decides which interpreter of the host is meant.
    pub surroundings: Surroundings,
    /// Host files that nothing inside may change or replace, whatever the policy makes writable:
    /// the policy's own text.
    pub protected: Vec<PathBuf>,
    /// Where connections of programs go. Without one nothing leaves, and the wall has no way out.
    pub gateway: Option<Arc<dyn Gateway>>,
    /// What programs find of the tools they may call; the gateway then carries tools. Without it
    /// there is no socket inside.
    pub tools: Option<ToolDoor>,
}

/// The files a sandbox starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// The wall's own: the host's programs and libraries, or the image's.
    Standard,
    /// An unpacked image or any other directory of the host, read-only.
    Directory(PathBuf),
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
    /// Starts one program. Called again only after the one before has ended.
    fn start(&self, execution: Execution) -> BoxFuture<'_, Result<Running, Error>>;

    /// Resolves when a limit was passed that the kernel does not hold by itself; the caller then
    /// ends the execution. Never resolves otherwise.
    fn exceeded(&self) -> BoxFuture<'_, Limit>;

    /// What was used and met so far, from the kernel. Cheap; called at any time, also after the end.
    fn observe(&self) -> Observation;

    /// Kills everything inside. Returns when the kill is sent.
    fn kill(&self);

    /// Ends the sandbox and waits until nothing of it is left on the host.
    fn end(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>>;
}

/// What the kernel says of a sandbox. `None` is what it does not say here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Processor time used.
    pub cpu_time: Option<Duration>,
    /// The most memory used at once, in bytes.
    pub memory_peak_bytes: Option<u64>,
    /// The most tasks alive at once, Stockade's own among them.
    pub tasks_peak: Option<u64>,
    /// Processes killed for want of memory.
    pub oom_kills: u64,
    /// Limits that refused something; memory is left to the count above.
    pub limits_hit: BTreeSet<Limit>,
    /// What the wall refused and can name.
    pub denials: Vec<Denial>,
}
