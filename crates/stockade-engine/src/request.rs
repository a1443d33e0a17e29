//! What one execution is given.

use std::path::PathBuf;
use std::sync::Arc;

use stockade_policy::{Context, Policy};
use stockade_provider::{Program, Root};
use stockade_record::Recorder;
use stockade_tools::Tools;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::Passage;

/// One execution, as a front door asks for it.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// What is allowed.
    pub policy: Arc<Policy>,
    /// The wall by its name; unsaid is the first that holds the policy.
    pub provider: Option<String>,
    /// What stands at `/`.
    pub root: Root,
    /// The host's number of the user who asks, for the record.
    pub user: u32,
    /// Host files that nothing inside may change, such as the policy's own text.
    pub protected: Vec<PathBuf>,
    /// What to start.
    pub program: Program,
    /// The caller's variables, beside those of the policy.
    pub environment: Vec<(String, String)>,
    /// What passes the gate.
    pub passage: Passage,
    /// What programs inside may call, of which the policy decides. Servers that were started for
    /// them are the caller's to end.
    pub tools: Tools,
    /// What rules may look at; time rules need its clock.
    pub context: Context,
    /// Keeps the record of this run, which ends when it cannot be kept. One recorder is for one
    /// run.
    pub recorder: Option<Arc<Recorder>>,
}

/// Where a program's output and its errors go while it runs.
pub type Live = (Box<dyn AsyncWrite + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

/// Where a program's streams lead.
#[derive(Default)]
pub struct Streams {
    /// What it reads; `None` is an empty input.
    pub stdin: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Where its output and its errors go while it runs; each is shut down at its end.
    pub live: Option<Live>,
    /// Whether the report holds the output.
    pub capture: bool,
}
