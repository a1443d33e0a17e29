//! Decodes a tree of YAML nodes into a checked tools file.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use stockade_policy::check_name;
use stockade_text::{Kind, Node, Table, TextSpan, describe};

use super::{CommandEntry, ServerEntry, ToolEntry, ToolKind, ToolsFile};
use crate::mcp::Import;
use crate::schema::{Schema, closed};
use crate::tool::is_name;

pub(super) use super::fields::Decoder;

const FILE: &[&str] = &["version", "tools", "mcp_servers"];
const TOOL_KEYS: &[&str] = &[
    "name",
    "description",
    "command",
    "http",
    "environment",
    "input_schema",
    "output_schema",
    "timeout_seconds",
];
const SERVER: &[&str] = &["name", "command", "environment", "tools"];
const IMPORT: &[&str] = &["name", "as"];

/// The most tools of a file, and of a server.
const MAX_TOOLS: usize = 1024;

/// The longest timeout of a tool, in seconds.
const MAX_SECONDS: f64 = 86400.0;

impl Decoder<'_, '_> {
    pub(super) fn file(&mut self, root: &Node) -> Option<ToolsFile> {
        let table = self.table(root, "a tools file", FILE)?;
        match table.get("version").map(|node| (node, &node.kind)) {
            None => {}
            Some((_, Kind::Scalar { text, .. })) if text == "1" => {}
            Some((node, _)) => {
                let message =
                    format!("the version {} of this file is not known here", describe(node));
                self.mistake(node.place, message, "write `version: \"1\"`");
            }
        }
        let mut names = BTreeSet::new();
        let mut tools = Vec::new();
        for node in self.items(&table, "tools") {
            if let Some(tool) = self.tool(node) {
                self.unique(&mut names, &tool.name, node.place);
                tools.push(tool);
            }
        }
        let mut servers: Vec<ServerEntry> = Vec::new();
        for node in self.items(&table, "mcp_servers") {
            let Some(server) = self.server(node) else { continue };
            for import in &server.imports {
                self.unique(&mut names, &import.called, node.place);
            }
            if servers.iter().any(|other| other.name == server.name) {
                let message = format!("two servers are called `{}`", server.name);
                self.mistake(node.place, message, "give one of them another name");
            }
            servers.push(server);
        }
        Some(ToolsFile { base: self.base.to_owned(), tools, servers })
    }

    fn items<'n>(&mut self, table: &Table<'n>, key: &str) -> &'n [Node] {
        let items = table.get(key).and_then(|node| self.list_up_to(node, key, MAX_TOOLS));
        items.unwrap_or_default()
    }

    fn unique(&mut self, names: &mut BTreeSet<String>, name: &str, place: TextSpan) {
        if !names.insert(name.to_owned()) {
            let message = format!("two tools are called `{name}`");
            let remedy = "give one of them another name; a server's tool with `{name: …, as: …}`";
            self.mistake(place, message, remedy);
        }
    }

    fn tool(&mut self, node: &Node) -> Option<ToolEntry> {
        let what = "a tool";
        let table = self.table(node, what, TOOL_KEYS)?;
        let name = self.required(&table, "name", what).and_then(|node| self.tool_name(node));
        let description = table.get("description").map(|node| self.text(node, "description"));
        let input = self.required(&table, "input_schema", what);
        let input = input.and_then(|node| self.schema(node, "input_schema"));
        let output = table.get("output_schema").map(|node| self.schema(node, "output_schema"));
        let most_time = table.get("timeout_seconds").map(|node| self.seconds(node));
        let kind = match (table.get("command"), table.get("http")) {
            (Some(node), None) => self.command(node, &table).map(ToolKind::Command),
            (None, Some(node)) => {
                if let Some(environment) = table.get("environment") {
                    let message = "`environment` is for commands";
                    let remedy =
                        "send a variable as a header: `headers_from: {NAME: \"env:VARIABLE\"}`";
                    self.mistake(environment.place, message, remedy);
                }
                self.http(node).map(ToolKind::Http)
            }
            (command, _) => {
                let message = match command {
                    Some(_) => "a tool has both `command` and `http`",
                    None => "a tool has neither `command` nor `http`",
                };
                self.mistake(node.place, message, "write exactly one of them");
                None
            }
        };
        Some(ToolEntry {
            name: name?,
            description: description.unwrap_or(Some(String::new()))?,
            input: input?,
            output: output.map_or(Some(None), |output| output.map(Some))?,
            most_time: most_time.map_or(Some(None), |time| time.map(Some))?,
            kind: kind?,
            is_needed: true,
        })
    }

    fn tool_name(&mut self, node: &Node) -> Option<String> {
        let name = self.text(node, "the name of a tool")?;
        if !is_name(&name) {
            let message = format!("{} is not the name of a tool", describe(node));
            self.mistake(node.place, message, "use letters, digits, `_ . : / -`, at most 128");
            return None;
        }
        Some(name)
    }

    /// A usable schema, as written.
    fn schema(&mut self, node: &Node, which: &'static str) -> Option<Value> {
        let value = match node.json() {
            Ok(value) => value,
            Err(inner) => {
                let message =
                    format!("{which} has a value that JSON cannot hold: {}", describe(inner));
                self.mistake(inner.place, message, "write a number, or a text in quotes");
                return None;
            }
        };
        let checked = match which {
            "input_schema" => closed(value.clone()),
            _ => Ok(value.clone()),
        };
        match checked.and_then(|schema| Schema::compile(&schema)) {
            Ok(_) => Some(value),
            Err(why) => {
                let remedy = "write a JSON Schema, such as {type: object, properties: {text: {type: string}}}";
                self.mistake(node.place, format!("{which} {why}"), remedy);
                None
            }
        }
    }

    fn seconds(&mut self, node: &Node) -> Option<Duration> {
        let seconds = node.json().ok().and_then(|value| value.as_f64());
        let seconds = seconds.filter(|seconds| *seconds > 0.0 && *seconds <= MAX_SECONDS);
        if seconds.is_none() {
            let message = format!("timeout_seconds cannot be {}", describe(node));
            self.mistake(
                node.place,
                message,
                format!("write a number above 0 and up to {MAX_SECONDS}"),
            );
        }
        seconds.map(Duration::from_secs_f64)
    }

    /// A program with its arguments and environment variables.
    fn command(&mut self, node: &Node, table: &Table<'_>) -> Option<CommandEntry> {
        if let Kind::Scalar { text, .. } = &node.kind {
            let message = "command must be a list: no shell reads it";
            let words: Vec<&str> = text.split_whitespace().collect();
            self.mistake(node.place, message, format!("write [{}]", words.join(", ")));
            return None;
        }
        let mut words = self.texts(node, "command")?.into_iter();
        let Some(program) = words.next().filter(|program| !program.is_empty()) else {
            self.mistake(node.place, "command names no program", "write [program, argument, …]");
            return None;
        };
        let file = match program.contains('/') {
            true => self.base.join(&program),
            false => PathBuf::from(&program),
        };
        let environment = match table.get("environment") {
            Some(node) => self.variables(node)?,
            None => Vec::new(),
        };
        Some(CommandEntry { file, arguments: words.collect(), environment })
    }

    fn variables(&mut self, node: &Node) -> Option<Vec<String>> {
        if matches!(node.kind, Kind::Map(_)) {
            let message = "environment is a list of names: their values come from here";
            self.mistake(
                node.place,
                message,
                "write [NAME, OTHER_NAME] and set them where Stockade runs",
            );
            return None;
        }
        let mut names = Vec::new();
        for item in self.list(node, "environment")? {
            let name = self.text(item, "a variable")?;
            if let Err(error) = check_name(&name) {
                self.mistake(item.place, error.to_string(), error.remedy());
                return None;
            }
            names.push(name);
        }
        Some(names)
    }

    fn server(&mut self, node: &Node) -> Option<ServerEntry> {
        let what = "a tool server";
        let table = self.table(node, what, SERVER)?;
        let name = self.required(&table, "name", what).and_then(|node| self.tool_name(node));
        let command = self.required(&table, "command", what);
        let command = command.and_then(|node| self.command(node, &table));
        let mut imports = Vec::new();
        let tools = table.get("tools").and_then(|node| self.list(node, "tools"));
        for item in tools.unwrap_or_default() {
            imports.push(self.import(item)?);
        }
        if imports.is_empty() {
            let message = "this server's tools are not used: none is named";
            self.mistake(
                table.place,
                message,
                "name those to import: `tools: [NAME, {name: NAME, as: OTHER}]`",
            );
        }
        Some(ServerEntry { name: name?, command: command?, imports })
    }

    fn import(&mut self, node: &Node) -> Option<Import> {
        if !matches!(node.kind, Kind::Map(_)) {
            let name = self.tool_name(node)?;
            return Some(Import { called: name.clone(), name });
        }
        let table = self.table(node, "an imported tool", IMPORT)?;
        let name = self.required(&table, "name", "an imported tool")?;
        // The server's own name for the tool may be any text.
        let name = self.text(name, "the name of a tool")?;
        let called = match table.get("as") {
            Some(node) => self.tool_name(node)?,
            None => name.clone(),
        };
        if !is_name(&called) {
            self.mistake(
                node.place,
                format!("`{called}` is not the name of a tool"),
                "give it one with `as`",
            );
            return None;
        }
        Some(Import { name, called })
    }
}
