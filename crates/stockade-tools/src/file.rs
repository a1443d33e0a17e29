//! Tools from a YAML file.

mod decode;
mod endpoint;
mod fields;
mod start;
mod trusted_paths;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use stockade_text::{Aliases, Dialect};

use crate::mcp::Import;
use decode::Decoder;

pub use start::HostEnvironment;
pub use stockade_text::TextErrors as ToolsFileError;
pub use trusted_paths::TrustedPaths;

const DIALECT: Dialect = Dialect {
    name: "tools file",
    language: "a tools file",
    when_empty: "write `tools:` and a list under it",
    // The file contains the schemas.
    max_depth: 64,
    when_too_deep: "write deep schemas with `$defs` and `$ref`",
    max_nodes: 500_000,
    aliases: Aliases::Refused,
    sections: &[],
    other_words: &[],
    hidden: None,
};

/// A checked tools file. No program is started yet.
#[derive(Debug)]
pub struct ToolsFile {
    /// The directory in which commands start and to which their paths are relative.
    base: PathBuf,
    tools: Vec<ToolEntry>,
    servers: Vec<ServerEntry>,
}

impl ToolsFile {
    /// Checks the text of a file. Messages call it `name`; relative paths start at `base`, the
    /// absolute directory of the file.
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
    /// Leaves out servers from which no wanted tool is imported: they need not start. The programs
    /// of other unwanted tools need not be installed.
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
    /// Whether any program may call it.
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
    /// Variables that are passed to the program.
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
