//! Suggests the lines of a policy that would allow what was denied.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Value, json};
use stockade_text::Printable;

use crate::commands::check_command_name;
use crate::control::Control;
use crate::host::{Host, parse_host_port};
use crate::request::{Method, PathPattern, UrlPath};
use crate::verdict::Denial;

/// The most lines of a suggestion: for a program that tries ten thousand hosts a list is no help.
const MAX_LINES: usize = 100;

/// The text of an empty suggestion.
const NOTHING: &str = "network_allowlist: []\n";

/// The lines that would allow some denials. Each line occurs once, with its number of denials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Suggestion {
    /// Entries for `network_allowlist`.
    pub network_allowlist: Vec<Line>,
    /// Entries for `command_allowlist`.
    pub command_allowlist: Vec<Line>,
    /// Entries for `tool_allowlist`.
    pub tool_allowlist: Vec<Line>,
    /// Denials that no line alone can allow.
    pub by_hand: Vec<Line>,
    /// How many further lines were left out.
    pub left_out: u64,
}

/// One line, and the denial that it would allow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The entry, as in a policy; absent if a person must decide.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub entry: Value,
    /// How often it was denied.
    pub times: u64,
    /// The first denial of it.
    pub denial: Denial,
}

/// The list that an entry belongs to.
enum ListEntry {
    Network(Vec<Value>),
    Command(Value),
    Tool(Value),
    ByHand,
}

impl Suggestion {
    /// The lines that would allow these denials.
    pub fn of<'d>(denials: impl IntoIterator<Item = &'d Denial>) -> Suggestion {
        let mut suggestion = Suggestion::default();
        for denial in denials {
            suggestion.add(denial);
        }
        suggestion
    }

    fn add(&mut self, denial: &Denial) {
        match entry(denial) {
            ListEntry::Network(entries) => {
                for entry in entries {
                    self.left_out += put(&mut self.network_allowlist, entry, denial);
                }
            }
            ListEntry::Command(entry) => {
                self.left_out += put(&mut self.command_allowlist, entry, denial);
            }
            ListEntry::Tool(entry) => self.left_out += put(&mut self.tool_allowlist, entry, denial),
            ListEntry::ByHand => {
                let same = |line: &&mut Line| line.denial == *denial;
                match self.by_hand.iter_mut().find(same) {
                    Some(line) => line.times += 1,
                    None => self.left_out += push(&mut self.by_hand, Value::Null, denial),
                }
            }
        }
    }

    /// Whether there is no suggestion.
    pub fn is_empty(&self) -> bool {
        self.network_allowlist.is_empty()
            && self.command_allowlist.is_empty()
            && self.tool_allowlist.is_empty()
            && self.by_hand.is_empty()
    }

    /// The lines as a policy text, each with its reason as a comment.
    pub fn to_yaml(&self) -> String {
        let mut text = String::new();
        for line in &self.by_hand {
            let Denial { target, how_to_allow, .. } = &line.denial;
            comment(&mut text, "", &format!("no line allows {target}: {}", reason(line)));
            comment(&mut text, "", &format!("  to change it: {how_to_allow}"));
        }
        for (key, lines) in [
            ("network_allowlist", &self.network_allowlist),
            ("command_allowlist", &self.command_allowlist),
            ("tool_allowlist", &self.tool_allowlist),
        ] {
            if lines.is_empty() {
                continue;
            }
            let _ = writeln!(text, "{key}:");
            for line in lines {
                comment(&mut text, "  ", &reason(line));
                // JSON on one line is valid YAML, with any characters in a name.
                let _ = writeln!(text, "  - {}", line.entry);
            }
        }
        let lists = [&self.network_allowlist, &self.command_allowlist, &self.tool_allowlist];
        if lists.iter().all(|lines| lines.is_empty()) {
            // A text with only comments is not a valid policy.
            text.push_str(NOTHING);
        }
        if self.left_out > 0 {
            comment(&mut text, "", &format!("{} more were denied and are left out", self.left_out));
        }
        text
    }
}

fn reason(line: &Line) -> String {
    let Line { denial: Denial { why, rule, .. }, times, .. } = line;
    match times {
        1 => format!("{why} ({rule})"),
        times => format!("{why} ({rule}), {times} times"),
    }
}

fn comment(text: &mut String, pad: &str, line: &str) {
    let _ = writeln!(text, "{pad}# {}", Printable(line));
}

/// Counts an entry; returns 1 if there is no room for it.
fn put(lines: &mut Vec<Line>, entry: Value, denial: &Denial) -> u64 {
    match lines.iter_mut().find(|line| line.entry == entry) {
        Some(line) => {
            line.times += 1;
            0
        }
        None => push(lines, entry, denial),
    }
}

fn push(lines: &mut Vec<Line>, entry: Value, denial: &Denial) -> u64 {
    if lines.len() >= MAX_LINES {
        return 1;
    }
    lines.push(Line { entry, times: 1, denial: denial.clone() });
    0
}

/// The entry that would allow one denial. If its target does not parse, a person must decide.
fn entry(denial: &Denial) -> ListEntry {
    let control = |control: Control| denial.control == control.as_str();
    let answer = if control(Control::NetworkHosts) || control(Control::NetworkPublic) {
        hosts(denial).map(ListEntry::Network)
    } else if control(Control::NetworkRequests) {
        request(denial).map(|entry| ListEntry::Network(vec![entry]))
    } else if control(Control::Commands) {
        added(denial, "command_allowlist")
            .filter(|name| check_command_name(name).is_ok())
            .map(|name| ListEntry::Command(json!(name)))
    } else if control(Control::Tools) {
        added(denial, "tool_allowlist").map(|name| ListEntry::Tool(json!(name)))
    } else {
        None
    };
    answer.unwrap_or(ListEntry::ByHand)
}

/// The name that a denial suggests to add to a list.
fn added<'d>(denial: &'d Denial, list: &str) -> Option<&'d str> {
    denial.how_to_allow.strip_prefix("add `")?.strip_suffix(list)?.strip_suffix("` to ")
}

/// A host with its port, and the resolved address if that was the reason. Hosts that no entry can
/// open, such as a metadata service, have none.
fn hosts(denial: &Denial) -> Option<Vec<Value>> {
    if !denial.how_to_allow.starts_with("add ") {
        return None;
    }
    let (name, address) = match denial.target.split_once(" at ") {
        Some((name, address)) => (name, Some(address)),
        None => (denial.target.as_str(), None),
    };
    let (host, port) = parse_host_port(name).ok()?;
    let port = port?;
    let mut entries = vec![json!(format!("{host}:{port}"))];
    if let Some(address) = address {
        let address = Host::Address(address.parse().ok()?);
        entries.push(json!(format!("{address}:{port}")));
    }
    Some(entries)
}

/// An entry for exactly one method on one path.
fn request(denial: &Denial) -> Option<Value> {
    let (method, rest) = denial.target.split_once(' ')?;
    let (authority, path) = rest.split_at_checked(rest.find('/')?)?;
    let (host, port) = parse_host_port(authority).ok()?;
    let method = Method::parse(method).ok()?;
    let pattern = PathPattern::parse(path).ok()?;
    let asked = UrlPath::parse(path).ok()?;
    // A star in a path would match more than the denied request.
    if path.contains('*') || !pattern.matches(&asked) {
        return None;
    }
    let host = host.to_string();
    Some(json!({ "host": host, "ports": [port?], "methods": [method.as_str()], "paths": [path] }))
}

#[cfg(test)]
#[path = "suggest_tests.rs"]
mod tests;
