//! The protocol: what the server is, which tools it has, and calls of them.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestMethod, CompleteRequestParams,
    CompleteResult, ErrorData, Implementation, ListPromptsRequestMethod, ListPromptsResult,
    ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, ListResourcesRequestMethod,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
    Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};

use super::answer;
use super::sandboxes::Sandboxes;
use super::streams::Gone;
use super::tools::{self, OfferedTool};

const INSTRUCTIONS: &str = "\
Runs code and commands in sandboxes on the user's machine. Create one with create_sandbox and pass \
its sandbox_id to the other tools: files stay in a sandbox between calls, and variables in a context of run_code. checkpoint, restore \
and diff go back and compare. Nothing \
is reachable but what the policy allows; what is refused says why and how it can be allowed, and \
explain_denial answers in advance. Close a sandbox that is no longer needed.";

/// How long clients may keep the list of tools: it never changes while the server runs.
const LIST_TTL: Duration = Duration::from_secs(3600);

/// The server of one client.
pub(super) struct Server {
    sandboxes: Arc<Sandboxes>,
    gone: Gone,
    tools: Vec<OfferedTool>,
}

/// Ends a call early.
#[derive(Clone)]
pub(super) struct Stop {
    cancelled: tokio_util::sync::CancellationToken,
    gone: Gone,
}

impl Stop {
    /// Resolves when the client cancels the call or disconnects.
    pub(super) async fn wait(&self) {
        tokio::select! {
            () = self.cancelled.cancelled() => {}
            () = self.gone.wait() => {}
        }
    }
}

impl Server {
    pub(super) fn new(sandboxes: Arc<Sandboxes>, gone: Gone) -> Server {
        Server { sandboxes, gone, tools: tools::all() }
    }

    fn entry(&self, name: &str) -> Option<&OfferedTool> {
        self.tools.iter().find(|entry| entry.tool.name == name)
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let implementation = Implementation::new("stockade", env!("CARGO_PKG_VERSION"))
            .with_title("Stockade")
            .with_description(env!("CARGO_PKG_DESCRIPTION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(implementation)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.tools.iter().map(|entry| entry.tool.clone()).collect();
        let ttl_ms = u64::try_from(LIST_TTL.as_millis()).ok();
        Ok(ListToolsResult { ttl_ms, ..ListToolsResult::with_all_items(tools) })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(entry) = self.entry(&request.name) else {
            let known: Vec<&str> = self.tools.iter().map(|entry| &*entry.tool.name).collect();
            let message =
                format!("there is no tool {:?}; there are {}", request.name, known.join(", "));
            return Err(ErrorData::invalid_params(message, None));
        };
        let stop = Stop { cancelled: context.ct.clone(), gone: self.gone.clone() };
        let arguments = request.arguments.unwrap_or_default();
        let called = (entry.call)(Arc::clone(&self.sandboxes), arguments, stop).await;
        let result = match called {
            Ok(answer) => answer.into_result(),
            Err(error) => answer::failure(&error),
        };
        Ok(result.into())
    }

    // What `get_info` does not declare does not exist; the defaults would answer with empty lists.

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourcesRequestMethod>())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourceTemplatesRequestMethod>())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.entry(name).map(|entry| entry.tool.clone())
    }
}
