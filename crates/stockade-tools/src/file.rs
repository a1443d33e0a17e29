//! Tools from a YAML file.

mod deciding;
mod decode;
mod endpoint;
mod fields;
mod start;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use stockade_text::{Aliases, Dialect};

use crate::mcp::Import;
use decode::Decoder;

pub use deciding::Deciding;
pub use start::Surroundings;
pub use stockade_text::TextErrors as ToolsFileError;

const DIALECT: Dialect = Dialect {
    name: "file of tools",
    language: "a file of tools",
    when_empty: "write `tools:` and a list under it",
    // Schemas are written into the file.
    max_depth: 64,
    when_too_deep: "write deep schemas with `$defs` and `$ref`",
    max_nodes: 500_000,
    aliases: Aliases::Refused,
    sections: &[],
    other_words: &[],
};

/// A file of tools that was checked. Nothing was started.
#[derive(Debug)]
pub struct ToolsFile {
    /// Commands start here, and their paths start from here.
    base: PathBuf,
    tools: Vec<ToolEntry>,
    servers: Vec<ServerEntry>,
}

impl ToolsFile {
    /// Checks the text of a file. `name` is what messages call it; relative paths start from
    /// `base`, the absolute directory of the file.
    pub fn parse(name: &str, text: &[u8], base: &Path) -> Result<ToolsFile, ToolsFileError> {
        stockade_text::parse(name, text, &DIALECT, |root, report| {
            Decoder { report, base }.file(root)
        })
    }

    /// The names that the tools will have, in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let imported = self.servers.iter().flat_map(|server| &server.imports);
        let own = self.tools.iter().map(|tool| tool.name.as_str());
        own.chain(imported.map(|import| import.called.as_str()))
    }
}

impl ToolsFile {
    /// Leaves out servers of which nothing that is wanted is imported: they need not be started.
    /// Programs of other tools that are not wanted need not be installed.
    pub fn need_only(&mut self, is_wanted: impl Fn(&str) -> bool) {
        for tool in &mut self.tools {
            tool.is_needed = is_wanted(&tool.name);
        }
        self.servers.retain(|server| server.imports.iter().any(|import| is_wanted(&import.called)));
    }
}

#[derive(Debug)]
struct ToolEntry {
    name: String,
    description: String,
    input: Value,
    output: Option<Value>,
    most_time: Option<Duration>,
    kind: ToolKind,
    /// Whether somebody can call it.
    is_needed: bool,
}

#[derive(Debug)]
enum ToolKind {
    Command(CommandEntry),
    Http(HttpEntry),
}

#[derive(Debug)]
struct CommandEntry {
    file: PathBuf,
    arguments: Vec<String>,
    /// Variables that are passed on.
    environment: Vec<String>,
}

#[derive(Debug)]
struct HttpEntry {
    url: url::Url,
    method: hyper::Method,
    headers: Vec<(hyper::header::HeaderName, HeaderSource)>,
}

#[derive(Debug)]
enum HeaderSource {
    Value(hyper::header::HeaderValue),
    Variable(String),
    File(PathBuf),
}

#[derive(Debug)]
struct ServerEntry {
    name: String,
    command: CommandEntry,
    imports: Vec<Import>,
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
