//! `secrets`, `tool_allowlist`, `tool_arguments`, `command_allowlist`, `environment` and `seccomp`.

use std::path::PathBuf;

use stockade_text::{Kind, Node, Table, is_nearly};

use crate::commands::check_command_name;
use crate::paths::host_file;
use crate::pattern::HostPattern;
use crate::policy::{Secret, SecretPlace, SecretSource, ToolArguments, Variable};
use crate::source::{Basis, Sourced};
use crate::variables::{check_name, check_secret_name, check_variable};

use super::keys;
use super::values::Decoder;

/// The most secrets, and the most hosts of one.
const MAX_SECRETS: usize = 100;

/// The most seccomp profiles.
const MAX_PROFILES: usize = 16;

/// The longest value of an environment variable, in bytes.
const MAX_VARIABLE_BYTES: usize = 32 * 1024;

/// Headers that frame or route a request; a secret in one of them would change its meaning.
const FRAMING_HEADERS: [&str; 8] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
    "trailer",
    "expect",
];

impl Decoder<'_, '_> {
    pub(super) fn secrets(&mut self, table: &Table<'_>) -> Vec<Secret> {
        let Some(node) = table.get("secrets") else { return Vec::new() };
        if !matches!(node.kind, Kind::List(_)) {
            // Neither the message nor its line repeats what may be a value.
            self.hide(node);
            let message = "secrets must be a list of mappings";
            self.mistake(node.place, message, "write `- { name: …, from: …, hosts: [ … ] }` lines");
            return Vec::new();
        }
        let items = self.list_up_to(node, "secrets", MAX_SECRETS);
        let mut secrets: Vec<Secret> = Vec::new();
        for item in items.unwrap_or_default() {
            let Some(secret) = self.secret(item) else { continue };
            if secrets.iter().any(|other| other.name == secret.name) {
                let message = format!("the secret `{}` is defined twice", secret.name);
                self.mistake(item.place, message, "keep one of the two, or rename one");
                continue;
            }
            secrets.push(secret);
        }
        secrets
    }

    fn secret(&mut self, node: &Node) -> Option<Secret> {
        let what = "a secret";
        let Kind::Map(entries) = &node.kind else {
            self.hide(node);
            let message = "a secret must be a mapping";
            self.mistake(node.place, message, "write `{ name: …, from: …, hosts: [ … ] }`");
            return None;
        };
        for entry in entries {
            // `value: …` and the like. Other misspelled keys have what the right ones would have.
            let is_ordinary = |known: &&str| {
                **known == *entry.key || (**known != *"from" && is_nearly(known, &entry.key))
            };
            if !keys::SECRET.iter().any(is_ordinary) {
                self.hide(&entry.value);
            }
        }
        let table = self.table(node, what, keys::SECRET)?;
        let name = self.required(&table, "name", what).and_then(|node| self.secret_name(node));
        let from = self.required(&table, "from", what).and_then(|node| self.secret_source(node));
        let hosts = self.required(&table, "hosts", what).and_then(|node| self.secret_hosts(node));
        let place = self.secret_place(&table, node);
        let basis = Basis::Line(self.report.origin(node.place));
        Some(Secret { name: name?, from: from?, hosts: hosts?, place: place?, basis })
    }

    fn secret_name(&mut self, node: &Node) -> Option<String> {
        let name = self.text(node, "secrets[].name")?;
        match check_secret_name(&name) {
            Ok(()) => Some(name),
            Err(error) => {
                self.mistake(node.place, error.to_string(), error.remedy());
                None
            }
        }
    }

    fn secret_hosts(&mut self, node: &Node) -> Option<Vec<HostPattern>> {
        let items = self.list_up_to(node, "secrets[].hosts", MAX_SECRETS)?;
        let mut hosts = Vec::new();
        for item in items {
            let text = self.text(item, "a host");
            hosts.extend(
                text.and_then(|text| self.pattern(HostPattern::parse_allowed(&text), item)),
            );
        }
        if items.is_empty() {
            self.mistake(
                node.place,
                "a secret without hosts is never sent",
                "name the hosts that get it",
            );
        }
        if hosts.is_empty() || hosts.len() < items.len() {
            return None;
        }
        hosts.sort();
        hosts.dedup();
        Some(hosts)
    }

    /// One of a header, a parameter of the query, and basic authentication.
    fn secret_place(&mut self, table: &Table<'_>, node: &Node) -> Option<SecretPlace> {
        let basic = match table.get("basic") {
            Some(node) => self.boolean(node, "secrets[].basic")?,
            None => false,
        };
        let in_header = table.get("header").is_some() || table.get("format").is_some();
        match (table.get("query"), basic, in_header) {
            (None, false, _) => {
                let (name, format) = (self.header(table), self.format(table));
                Some(SecretPlace::Header { name: name?, format: format? })
            }
            (None, true, false) => Some(SecretPlace::Basic),
            (Some(query), false, false) => {
                let name = self.text(query, "secrets[].query")?;
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
                if name.is_empty() || name.len() > 128 || !name.bytes().all(plain) {
                    let message = format!("`{name}` is not a plain parameter of a query");
                    let remedy = "write its name with letters, digits and `- . _ ~`";
                    self.mistake(query.place, message, remedy);
                    return None;
                }
                Some(SecretPlace::Query { name })
            }
            _ => {
                let message = "a secret has one place: `header` with `format`, `query`, or `basic`";
                self.mistake(node.place, message, "keep one of them");
                None
            }
        }
    }

    /// Where the value comes from. What is written instead may be the value itself, so no message
    /// repeats it, and no quoted line shows it.
    fn secret_source(&mut self, node: &Node) -> Option<SecretSource> {
        let text = match (&node.kind, node.is_null()) {
            (Kind::Scalar { text, .. }, false) => text.as_str(),
            _ => "",
        };
        match text.split_once(':') {
            Some(("env", name)) if check_name(name).is_ok() => {
                return Some(SecretSource::Environment(name.to_owned()));
            }
            Some(("file", path)) => {
                let read = host_file(path, self.base);
                return self.path(read, node).map(SecretSource::File);
            }
            Some(("command", line)) if !line.trim().is_empty() => {
                let words = line.split_whitespace().map(str::to_owned);
                return Some(SecretSource::Command(words.collect()));
            }
            _ => self.hide(node),
        }
        let shown = if text.starts_with("env:") { "env:…" } else { "…" };
        let message = format!("`{shown}` does not name the source of the secret");
        let remedy = "write `env:NAME`, `file:PATH` or `command:PROGRAM ARGUMENT`";
        self.mistake(node.place, message, remedy);
        None
    }

    fn header(&mut self, table: &Table<'_>) -> Option<String> {
        let Some(node) = table.get("header") else { return Some("Authorization".to_owned()) };
        let text = self.text(node, "secrets[].header")?;
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let framing = FRAMING_HEADERS.contains(&text.to_ascii_lowercase().as_str());
        if text.is_empty() || text.len() > 128 || !text.bytes().all(token) || framing {
            let message = format!("`{text}` is not a header that can carry a secret");
            self.mistake(
                node.place,
                message,
                "write a header such as `Authorization` or `X-Api-Key`",
            );
            return None;
        }
        Some(text)
    }

    fn format(&mut self, table: &Table<'_>) -> Option<String> {
        let Some(node) = table.get("format") else { return Some("{}".to_owned()) };
        let text = self.text(node, "secrets[].format")?;
        let plain =
            text.len() <= 256 && text.chars().all(|c| c.is_ascii() && !c.is_ascii_control());
        if !plain || text.matches("{}").count() != 1 {
            let message = "a format has exactly one `{}`, which the secret replaces, and plain text around it";
            self.mistake(node.place, message, "write a format such as \"Bearer {}\"");
            return None;
        }
        Some(text)
    }

    pub(super) fn tools(&mut self, table: &Table<'_>) -> Sourced<Vec<Sourced<String>>> {
        let Some(node) = table.get("tool_allowlist") else {
            return Sourced::built_in(Vec::new(), "denied by default");
        };
        let mut tools: Vec<Sourced<String>> = Vec::new();
        for item in self.list(node, "tool_allowlist").unwrap_or_default() {
            let Some(text) = self.text(item, "a tool") else { continue };
            let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:/-".contains(&byte);
            let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
            if !first || text.len() > 128 || !text.bytes().all(inner) {
                let message = format!("`{text}` is not the name of a tool");
                let remedy = "name each tool in full: letters, digits, `_ . : / -`";
                self.mistake(item.place, message, remedy);
                continue;
            }
            if !tools.iter().any(|tool| tool.value == text) {
                tools.push(self.sourced(text, item));
            }
        }
        self.sourced(tools, node)
    }

    pub(super) fn tool_arguments(&mut self, table: &Table<'_>) -> Sourced<ToolArguments> {
        let otherwise = Sourced::built_in(ToolArguments::Omit, "left out by default");
        let Some(node) = table.get("tool_arguments") else { return otherwise };
        let words = ToolArguments::ALL.map(|word| (word.as_str(), word));
        match self.word(node, "tool_arguments", &words) {
            Some(word) => self.sourced(word, node),
            None => otherwise,
        }
    }

    pub(super) fn commands(&mut self, table: &Table<'_>) -> Option<Sourced<Vec<Sourced<String>>>> {
        let node = table.get("command_allowlist")?;
        let mut commands: Vec<Sourced<String>> = Vec::new();
        for item in self.list(node, "command_allowlist").unwrap_or_default() {
            let Some(text) = self.text(item, "a command") else { continue };
            match check_command_name(&text) {
                Ok(()) if commands.iter().any(|command| command.value == text) => {}
                Ok(()) => commands.push(self.sourced(text, item)),
                Err(error) => self.mistake(item.place, error.to_string(), error.remedy()),
            }
        }
        Some(self.sourced(commands, node))
    }

    pub(super) fn environment(&mut self, table: &Table<'_>) -> Vec<Variable> {
        let entries = table.get("environment").and_then(|node| self.map(node, "environment"));
        let mut variables = Vec::new();
        for entry in entries.unwrap_or_default() {
            if let Err(error) = check_variable(&entry.key) {
                self.mistake(entry.key_place, error.to_string(), error.remedy());
                continue;
            }
            let what = format!("environment.{}", entry.key);
            let Some(value) = self.text(&entry.value, &what) else { continue };
            if value.contains('\0') || value.len() > MAX_VARIABLE_BYTES {
                let message =
                    format!("{what} has a zero byte or more than {MAX_VARIABLE_BYTES} bytes");
                self.mistake(entry.value.place, message, "pass large values as a file");
                continue;
            }
            let basis = Basis::Line(self.report.origin(entry.key_place));
            variables.push(Variable { name: entry.key.clone(), value, basis });
        }
        variables.sort_by(|a, b| a.name.cmp(&b.name));
        variables
    }

    pub(super) fn seccomp(&mut self, table: &Table<'_>) -> Vec<Sourced<PathBuf>> {
        let Some(node) = table.get("seccomp") else { return Vec::new() };
        let items = match &node.kind {
            Kind::List(_) => self.list_up_to(node, "seccomp", MAX_PROFILES).unwrap_or_default(),
            _ => std::slice::from_ref(node),
        };
        let mut profiles: Vec<Sourced<PathBuf>> = Vec::new();
        for item in items {
            let Some(text) = self.text(item, "seccomp") else { continue };
            let read = host_file(&text, self.base);
            let Some(path) = self.path(read, item) else { continue };
            if !profiles.iter().any(|profile| profile.value == path) {
                profiles.push(self.sourced(path, item));
            }
        }
        profiles
    }
}
