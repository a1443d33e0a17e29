//! A set of tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::ToolsError;
use crate::mcp::Server;
use crate::tool::Tool;

/// Tools by name. Their servers end when the last clone is dropped.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    tools: BTreeMap<String, Tool>,
    servers: Vec<Arc<Server>>,
}

impl Tools {
    /// No tools.
    pub fn new() -> Tools {
        Tools::default()
    }

    /// Adds a tool; fails if its name is already used.
    pub fn add(&mut self, tool: Tool) -> Result<(), ToolsError> {
        if self.tools.contains_key(tool.name()) {
            return Err(ToolsError::Twice { name: tool.name().to_owned() });
        }
        self.tools.insert(tool.name().to_owned(), tool);
        Ok(())
    }

    /// Adds all tools of another set; fails if a name is in both.
    pub fn merge(&mut self, others: Tools) -> Result<(), ToolsError> {
        if let Some(name) = others.names().find(|name| self.tools.contains_key(*name)) {
            return Err(ToolsError::Twice { name: name.to_owned() });
        }
        self.tools.extend(others.tools);
        self.servers.extend(others.servers);
        Ok(())
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Ends the servers of these tools: closes the input of each, then waits a moment before
    /// killing them. Resolves when none is left.
    pub async fn end(&self) {
        for server in &self.servers {
            server.leave();
        }
        for server in &self.servers {
            server.gone().await;
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.get(name)
    }

    pub(crate) fn keep(&mut self, server: Arc<Server>) {
        self.servers.push(server);
    }
}
