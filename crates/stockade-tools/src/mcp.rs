//! Tools of an MCP server on its standard input and output.
//!
//! ```text
//! started ── initialize ──▶ listed ── import by name ──▶ serving
//!    │            │            │                            │ a line that cannot be read: the
//!    │            │            │                            │ calls on their way fail, it goes on
//!    └────────────┴────────────┴─ error before the run      └─▶ gone: its calls say why
//! ```

mod result;
mod server;
mod transport;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use serde_json::Value;

use crate::error::ToolsError;
use crate::fault::Fault;
use crate::program::Program;
use crate::run::{Call, Run};
use crate::tool::Tool;
use crate::words::harmless;

pub(crate) use server::Server;

/// A tool to import, and its name here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) name: String,
    pub(crate) called: String,
}

/// Starts a server and imports its tools by name. The server must list them within `patience`.
pub(crate) async fn start(
    name: &str,
    program: &Program,
    imports: &[Import],
    patience: Duration,
) -> Result<(Arc<Server>, Vec<Tool>), ToolsError> {
    let (server, offered) = Server::start(name, program, patience).await?;
    let mut by_name = BTreeMap::new();
    for tool in offered {
        if by_name.insert(tool.name.to_string(), tool).is_some() {
            let why = "lists a tool twice".to_owned();
            return Err(ToolsError::Server { server: name.to_owned(), why });
        }
    }
    let mut tools = Vec::new();
    for import in imports {
        let Some(tool) = by_name.get(&import.name) else {
            let has: Vec<String> = by_name.keys().map(|name| format!("`{name}`")).collect();
            let has = if has.is_empty() { "none".to_owned() } else { has.join(", ") };
            return Err(ToolsError::Missing {
                server: name.to_owned(),
                tool: import.name.clone(),
                has: harmless(&has, 600),
            });
        };
        let run = McpTool { server: Arc::clone(&server), name: Arc::from(import.name.as_str()) };
        let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
        let input = Value::Object(tool.input_schema.as_ref().clone());
        let output =
            tool.output_schema.as_ref().map(|schema| Value::Object(schema.as_ref().clone()));
        tools.push(Tool::with(&import.called, description, input, output, Arc::new(run))?);
    }
    Ok((server, tools))
}

/// Calls one tool of a server.
struct McpTool {
    server: Arc<Server>,
    name: Arc<str>,
}

impl Run for McpTool {
    fn run(&self, call: Call) -> BoxFuture<'static, Result<Value, Fault>> {
        let (server, name) = (Arc::clone(&self.server), Arc::clone(&self.name));
        Box::pin(async move { server.call(&name, call).await })
    }
}

impl fmt::Debug for McpTool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("McpTool").field("name", &self.name).finish_non_exhaustive()
    }
}
