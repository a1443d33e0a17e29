//! The inputs of one execution.

use std::path::PathBuf;
use std::sync::Arc;

use stockade_policy::{Context, Policy};
use stockade_provider::{Program, Root};
use stockade_record::Recorder;
use stockade_tools::Tools;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::Passage;

/// A sandbox for one program, as a front end requests it.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The sandbox.
    pub session: SessionRequest,
    /// What to start.
    pub program: Program,
    /// Where it starts, an absolute path inside; `None` is the workspace.
    pub working_directory: Option<String>,
}

/// A sandbox, as a front end requests it.
#[derive(Clone, Debug)]
pub struct SessionRequest {
    /// What is allowed.
    pub policy: Arc<Policy>,
    /// The name of the wall; `None` is the first that enforces the policy.
    pub provider: Option<String>,
    /// The files at `/`.
    pub root: Root,
    /// The host user id of the caller, for the record.
    pub user: u32,
    /// Host files that nothing inside may change, such as the policy's own text.
    pub protected: Vec<PathBuf>,
    /// The caller's variables, in addition to those of the policy.
    pub environment: Vec<(String, String)>,
    /// The names in `environment` that may look like credentials, because the caller passes them in
    /// knowingly.
    pub credentials: Vec<String>,
    /// What the gate allows.
    pub passage: Passage,
    /// The tools that programs inside may call, subject to the policy. The caller ends the servers
    /// that it started for them.
    pub tools: Tools,
    /// The context of rules; time rules need its clock.
    pub context: Context,
    /// Keeps the record of this session; if it cannot be written, the session ends. One recorder
    /// serves one session.
    pub recorder: Option<Arc<Recorder>>,
}

/// Where a program's standard output and standard error go while it runs.
pub type Live = (Box<dyn AsyncWrite + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

/// The ends of a program's streams.
#[derive(Default)]
pub struct Streams {
    /// Its standard input; `None` is an empty input.
    pub stdin: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Where its output goes while it runs; each writer is shut down at the end of its stream.
    pub live: Option<Live>,
    /// Whether the report contains the output.
    pub capture: bool,
}
