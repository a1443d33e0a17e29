//! Tools from a YAML file.

mod deciding;
mod decode;
mod endpoint;
mod fields;
mod report;
mod start;
mod tree;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::mcp::Import;
use decode::Decoder;
use report::Report;

pub use deciding::Deciding;
pub use report::{Mistake, ToolsFileError};
pub use start::Surroundings;

/// The longest file that is read at all, in bytes.
const MAX_TEXT_BYTES: usize = 1 << 20;

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
        let shown = String::from_utf8_lossy(&text[..text.len().min(MAX_TEXT_BYTES)]);
        let mut report = Report::new(name, &shown);
        let file = if text.len() > MAX_TEXT_BYTES {
            let message = format!("the file is larger than {MAX_TEXT_BYTES} bytes");
            report.mistake(
                report::Place::START,
                message,
                "split it, or check that this is the right file",
            );
            None
        } else if std::str::from_utf8(text).is_err() {
            report.mistake(report::Place::START, "the file is not UTF-8 text", "save it as UTF-8");
            None
        } else {
            let root = tree::read(&shown, &mut report);
            root.and_then(|root| Decoder { report: &mut report, base }.file(&root))
        };
        report.finish(file)
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
