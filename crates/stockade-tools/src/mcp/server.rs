//! A running MCP server.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, Implementation,
    PaginatedRequestParams, ProtocolVersion, Tool as Offered,
};
use rmcp::service::{RunningService, ServiceError};
use rmcp::{RoleClient, serve_client};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::error::ToolsError;
use crate::fault::Fault;
use crate::mcp::result;
use crate::mcp::transport::{Pipe, Shared, fault_of};
use crate::program::{Group, Program, read_tail};
use crate::run::Call;
use crate::task::AbortOnDrop;
use crate::words::{counted, harmless, last_line};

/// How long it may take to exit when asked.
const LEAVE: Duration = Duration::from_secs(1);

/// How many bytes of a server's stderr are kept, and how long to wait for its end after the process
/// has exited.
const KEPT_ERRORS: usize = 4096;
const DRAIN_TIME: Duration = Duration::from_millis(200);

/// The most tools, and pages of tools.
const MOST_TOOLS: usize = 4096;
const MOST_PAGES: usize = 256;

/// The most bytes of a line before the first call.
const FIRST_LINE: usize = 4 << 20;

/// The most bytes of unread calls that are buffered for a server.
const MOST_UNREAD: usize = 64 << 20;

type Service = RunningService<RoleClient, ClientConfig>;

/// A started server. Dropping it ends it and everything it started.
pub(crate) struct Server {
    name: String,
    shared: Arc<Shared>,
    service: Mutex<Option<Service>>,
    /// Asks the supervising task to end the server; dropping it does the same.
    leave: watch::Sender<bool>,
    /// Whether no process is left.
    left: watch::Receiver<bool>,
}

impl Server {
    /// Starts a server and requests its tools.
    pub(super) async fn start(
        name: &str,
        program: &Program,
        patience: Duration,
    ) -> Result<(Arc<Server>, Vec<Offered>), ToolsError> {
        let owned = || name.to_owned();
        let (group, pipes) =
            program.start().map_err(|source| ToolsError::Start { server: owned(), source })?;
        let shared = Arc::new(Shared::new(FIRST_LINE));
        let pipe = Pipe::new(pipes.input, pipes.output, Arc::clone(&shared));
        let (leave, leaving) = watch::channel(false);
        let (leaver, left) = watch::channel(false);
        let errors = AbortOnDrop(tokio::spawn(async move {
            let mut text = Vec::new();
            read_tail(pipes.errors, KEPT_ERRORS, &mut text).await;
            text
        }));
        tokio::spawn(keep(group, errors, Arc::clone(&shared), leaving, leaver));
        let begun = timeout(patience, begin(pipe)).await.unwrap_or_else(|_| {
            let patience = counted(patience.as_secs_f64(), "second");
            Err(format!("did not list its tools within {patience}"))
        });
        match begun {
            Ok((service, tools)) => {
                let service = Mutex::new(Some(service));
                let server = Server { name: owned(), shared, service, leave, left };
                Ok((Arc::new(server), tools))
            }
            Err(why) => {
                // The exit status explains more than a missing answer.
                let ended = shared.gone.borrow().clone();
                Err(ToolsError::Server { server: owned(), why: ended.unwrap_or(why) })
            }
        }
    }

    /// Calls one of its tools.
    pub(super) async fn call(&self, tool: &str, call: Call) -> Result<Value, Fault> {
        let Value::Object(arguments) = call.arguments else {
            return Err(Fault::broken("the arguments are not an object"));
        };
        if self.shared.unread.load(Ordering::Relaxed) > MOST_UNREAD {
            return Err(Fault::broken("the tool's server does not read its requests"));
        }
        let peer = {
            let service = self.service.lock().unwrap_or_else(PoisonError::into_inner);
            service.as_ref().map(|service| service.peer().clone())
        };
        let Some(peer) = peer else { return Err(self.gone_fault()) };
        // The answer may hold a result twice, once as JSON inside a text.
        let most_line = call.bounds.bytes.saturating_mul(4).saturating_add(64 << 10);
        self.shared.most_line.fetch_max(most_line, Ordering::Relaxed);
        let mut trouble = self.shared.trouble.subscribe();
        let mut gone = self.shared.gone.subscribe();
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let answer = tokio::select! {
            answer = peer.call_tool_once(params) => answer,
            Ok(()) = trouble.changed() => return Err(trouble.borrow().1.clone()),
            Ok(_) = gone.wait_for(Option::is_some) => return Err(self.gone_fault()),
        };
        match answer {
            Ok(CallToolResponse::Complete(answer)) => result::of(answer, call.bounds),
            Ok(_) => Err(Fault::failed(
                "the tool asks the client for further input, which Stockade does not provide",
            )),
            Err(ServiceError::McpError(error)) => Err(fault_of(&error)),
            Err(ServiceError::UnexpectedResponse) => Err(Fault::broken(
                "the tool's server answered with something that is not a tool result",
            )),
            Err(_) => {
                // The reason of its exit is known shortly after its pipes close.
                let _ = timeout(LEAVE, gone.wait_for(Option::is_some)).await;
                Err(self.gone_fault())
            }
        }
    }

    /// Asks the server to exit: closes its input, and shortly after kills all its processes.
    pub(crate) fn leave(&self) {
        // First, so that the supervising task treats what follows as an expected exit.
        self.leave.send_replace(true);
        self.shared.is_gone("was ended with the run");
        self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Resolves when none of its processes is left.
    pub(crate) async fn gone(&self) {
        // If waiting fails, the supervising task has ended too.
        let _ = self.left.clone().wait_for(|left| *left).await;
    }

    fn gone_fault(&self) -> Fault {
        let why = self.shared.gone.borrow().clone();
        let why = why.unwrap_or_else(|| "is gone".to_owned());
        Fault::broken(format!("the tool's server `{}` {why}", self.name))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Server").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Sends `initialize` and requests all tools.
async fn begin(pipe: Pipe) -> Result<(Service, Vec<Offered>), String> {
    let about = Implementation::new("stockade", env!("CARGO_PKG_VERSION"));
    let config = ClientConfig::new(ClientCapabilities::default(), about)
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE);
    let service = serve_client(config, pipe).await.map_err(|error| {
        format!("did not complete the MCP handshake: {}", harmless(&error.to_string(), 300))
    })?;
    let mut tools = Vec::new();
    let mut page = PaginatedRequestParams::default();
    for _ in 0..MOST_PAGES {
        let list = service.list_tools(Some(page.clone())).await;
        let list = list.map_err(|error| {
            format!("did not list its tools: {}", harmless(&error.to_string(), 300))
        })?;
        tools.extend(list.tools);
        if tools.len() > MOST_TOOLS {
            break;
        }
        match list.next_cursor {
            None => return Ok((service, tools)),
            Some(cursor) => page = page.with_cursor(Some(cursor)),
        }
    }
    Err(format!("lists more than {MOST_TOOLS} tools, or more than {MOST_PAGES} pages of them"))
}

/// Owns the processes of a server until they end.
async fn keep(
    mut group: Group,
    mut errors: AbortOnDrop<Vec<u8>>,
    shared: Arc<Shared>,
    mut leaving: watch::Receiver<bool>,
    left: watch::Sender<bool>,
) {
    let mut gone = shared.gone.subscribe();
    // Dropping the server ends it too; the guard that `wait_for` returns cannot be held across an
    // await.
    let asked_to_leave = async { drop(leaving.wait_for(|leave| *leave).await) };
    let lost = async { drop(gone.wait_for(Option::is_some).await) };
    let ended = tokio::select! {
        biased;
        () = asked_to_leave => {
            let _ = timeout(LEAVE, group.end()).await;
            None
        }
        () = lost => None,
        status = group.end() => Some(status),
    };
    if let Some(status) = ended {
        let text = timeout(DRAIN_TIME, &mut errors.0).await.ok().and_then(Result::ok);
        let text = text.and_then(|text| last_line(&text, 300));
        let text = text.map(|text| format!(": {text}")).unwrap_or_default();
        shared.is_gone(&match status {
            Ok(status) => format!("ended by itself, {status}{text}"),
            Err(error) => format!("is lost: {error}"),
        });
    }
    group.kill();
    let _ = group.end().await;
    left.send_replace(true);
}
