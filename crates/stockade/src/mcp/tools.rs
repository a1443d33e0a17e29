//! The table of tools. A further one is a type with its [`SandboxTool`] and a line in [`all`].

use std::pin::Pin;
use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stockade_api::{Reply, Request, SessionView};

use super::answer::Answer;
use super::explain::ExplainDenial;
use super::files::{ListFiles, ReadFile, WriteFile};
use super::program::{RunCode, RunCommand};
use super::sandboxes::{Asked, Sandboxes};
use super::schema;
use super::server::Stop;
use super::state::{Diff, MakeCheckpoint, Restore};
use crate::Problem;
use crate::run::narrowing::Limits;
use crate::sessions::client;

/// Every tool, in the order of a client's list.
pub(super) fn all() -> Vec<OfferedTool> {
    vec![
        entry::<CreateSandbox>(),
        entry::<RunCode>(),
        entry::<RunCommand>(),
        entry::<ReadFile>(),
        entry::<WriteFile>(),
        entry::<ListFiles>(),
        entry::<MakeCheckpoint>(),
        entry::<Restore>(),
        entry::<Diff>(),
        entry::<ListSandboxes>(),
        entry::<ExplainDenial>(),
        entry::<CloseSandbox>(),
    ]
}

/// What a tool does, for clients that ask a person before some calls.
#[derive(Clone, Copy)]
pub(super) enum Effect {
    /// It changes nothing.
    Reads,
    /// It adds something.
    Adds,
    /// It may change or remove what is in a sandbox.
    Changes,
    /// It may also reach what the policy allows outside of the sandbox.
    Runs,
}

/// One tool.
pub(super) trait SandboxTool {
    const NAME: &'static str;
    const TITLE: &'static str;
    const DESCRIPTION: &'static str;
    const EFFECT: Effect;
    /// The arguments.
    type Params: DeserializeOwned + JsonSchema + Send;
    /// The structured result.
    type Result: JsonSchema;

    /// Carries out a call, until it is done or `stop` resolves.
    fn call(
        sandboxes: Arc<Sandboxes>,
        params: Self::Params,
        stop: Stop,
    ) -> impl Future<Output = anyhow::Result<Answer>> + Send;
}

type Called = Pin<Box<dyn Future<Output = anyhow::Result<Answer>> + Send>>;

/// A tool with its description and its function.
pub(super) struct OfferedTool {
    pub(super) tool: Tool,
    pub(super) call: fn(Arc<Sandboxes>, JsonObject, Stop) -> Called,
}

fn entry<T: SandboxTool>() -> OfferedTool {
    let hints = ToolAnnotations::with_title(T::TITLE);
    let hints = match T::EFFECT {
        Effect::Reads => hints.read_only(true).open_world(false),
        Effect::Adds => hints.read_only(false).destructive(false).open_world(false),
        Effect::Changes => hints.read_only(false).destructive(true).open_world(false),
        Effect::Runs => hints.read_only(false).destructive(true).open_world(true),
    };
    let tool = Tool::new(T::NAME, T::DESCRIPTION, schema::of::<T::Params>())
        .with_title(T::TITLE)
        .with_raw_output_schema(schema::of::<T::Result>())
        .with_annotations(hints);
    OfferedTool {
        tool,
        call: |sandboxes, arguments, stop| {
            Box::pin(async move {
                let params = serde_json::from_value(Value::Object(arguments));
                let params = params.map_err(|error| {
                    let message = format!("the arguments of {} are not valid: {error}", T::NAME);
                    Problem::new(message, "call it as its inputSchema in tools/list describes")
                })?;
                T::call(sandboxes, params, stop).await
            })
        },
    }
}

/// A sandbox.
#[derive(Serialize, JsonSchema)]
pub(super) struct SandboxView {
    /// Names the sandbox in all other tools.
    sandbox_id: String,
    /// `running`, `paused` or `ending`.
    state: String,
    /// When it was created, in seconds since 1970.
    created: u64,
    /// What isolates it, such as `native` or `docker`.
    provider: String,
    /// How strong the isolation is: `process`, `container`, `user-kernel`, `translated-vm` or `vm`.
    isolation: String,
    /// How many programs run in it now.
    running: usize,
    /// How long it may exist, in seconds.
    lifetime_seconds: Option<u64>,
    /// How long it may exist without a call, in seconds.
    idle_seconds: Option<u64>,
    /// The policy in force, as YAML: what is allowed, with every limit. Everything else is denied.
    policy: String,
}

impl From<SessionView> for SandboxView {
    fn from(view: SessionView) -> SandboxView {
        SandboxView {
            sandbox_id: view.name,
            state: view.state,
            created: view.created,
            provider: view.provider,
            isolation: view.isolation,
            running: view.running,
            lifetime_seconds: view.ttl_seconds,
            idle_seconds: view.idle_seconds,
            policy: view.policy_text,
        }
    }
}

pub(super) struct CreateSandbox;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateSandboxParams {
    /// Its id: letters, digits, `_`, `.` and `-`, at most 63. By default a random one.
    name: Option<String>,
    /// What this sandbox may do, as a policy in YAML. It can only narrow the policy of the server:
    /// of each clause the stricter holds, and what it does not name is denied.
    policy: Option<String>,
    /// Memory in MiB, files included.
    memory_mb: Option<u64>,
    /// Processors, such as 0.5.
    cpus: Option<f64>,
    /// How long one program may run.
    timeout_seconds: Option<f64>,
    /// How long the sandbox may exist.
    lifetime_seconds: Option<f64>,
    /// How long the sandbox may exist without a call.
    idle_seconds: Option<f64>,
}

impl SandboxTool for CreateSandbox {
    const NAME: &'static str = "create_sandbox";
    const TITLE: &'static str = "Create a sandbox";
    const DESCRIPTION: &'static str = "Creates a sandbox for code and commands, and returns its \
        sandbox_id and the policy in force. Its working directory is /workspace. Limits over those of \
        the server become those of the server. It ends with close_sandbox, after its lifetime, or \
        when this client disconnects.";
    const EFFECT: Effect = Effect::Adds;
    type Params = CreateSandboxParams;
    type Result = SandboxView;

    async fn call(
        sandboxes: Arc<Sandboxes>,
        params: CreateSandboxParams,
        stop: Stop,
    ) -> anyhow::Result<Answer> {
        let CreateSandboxParams { name, policy, memory_mb, cpus, timeout_seconds, .. } = params;
        let CreateSandboxParams { lifetime_seconds, idle_seconds, .. } = params;
        let limits = Limits { memory_mb, cpus, timeout_seconds, lifetime_seconds, idle_seconds };
        let asked = Asked { name, policy, limits };
        let table = Arc::clone(&sandboxes);
        let creating = tokio::task::spawn_blocking(move || table.create(asked));
        let creating = async {
            creating.await.map_err(|error| {
                Problem::new(
                    format!("the task of the call failed: {error}"),
                    "report this as a bug",
                )
            })?
        };
        let mut creating = std::pin::pin!(creating);
        let view = tokio::select! {
            view = &mut creating => view?,
            () = stop.wait() => {
                // The sandbox of a cancelled call would have no user.
                if let Ok(view) = creating.await {
                    let _ = client::ask(&view.name, Request::Remove { force: true }).await;
                    sandboxes.forget(&view.name);
                }
                return Err(stopped().into());
            }
        };
        Answer::new(&SandboxView::from(view))
    }
}

pub(super) struct ListSandboxes;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NoParams {}

#[derive(Serialize, JsonSchema)]
pub(super) struct SandboxesView {
    /// The sandboxes of this server.
    sandboxes: Vec<SandboxView>,
}

impl SandboxTool for ListSandboxes {
    const NAME: &'static str = "list_sandboxes";
    const TITLE: &'static str = "List the sandboxes";
    const DESCRIPTION: &'static str = "Lists the sandboxes that were created with create_sandbox \
        and have not ended, with their policies.";
    const EFFECT: Effect = Effect::Reads;
    type Params = NoParams;
    type Result = SandboxesView;

    async fn call(sandboxes: Arc<Sandboxes>, _: NoParams, _: Stop) -> anyhow::Result<Answer> {
        let mut views = Vec::new();
        for name in sandboxes.names() {
            // One that ends just now is left out.
            if let Ok(Reply::Session(view)) = client::ask(&name, Request::Inspect).await {
                views.push(SandboxView::from(*view));
            }
        }
        Answer::new(&SandboxesView { sandboxes: views })
    }
}

pub(super) struct CloseSandbox;

/// Names a sandbox.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SandboxParams {
    /// The sandbox.
    sandbox_id: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct ClosedView {
    /// The sandbox.
    sandbox_id: String,
    /// Always true: a sandbox that cannot be closed is an error.
    closed: bool,
}

impl SandboxTool for CloseSandbox {
    const NAME: &'static str = "close_sandbox";
    const TITLE: &'static str = "Close a sandbox";
    const DESCRIPTION: &'static str = "Ends a sandbox with all its programs and files.";
    const EFFECT: Effect = Effect::Changes;
    type Params = SandboxParams;
    type Result = ClosedView;

    async fn call(
        sandboxes: Arc<Sandboxes>,
        SandboxParams { sandbox_id }: SandboxParams,
        _: Stop,
    ) -> anyhow::Result<Answer> {
        sandboxes.ask(&sandbox_id, Request::Remove { force: true }).await?;
        sandboxes.forget(&sandbox_id);
        Answer::new(&ClosedView { sandbox_id, closed: true })
    }
}

/// The error of a call that was cancelled; its client does not wait for it any more.
pub(super) fn stopped() -> Problem {
    Problem::new("the call was cancelled", "call it again")
}
