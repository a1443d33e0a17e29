//! From a tree of YAML nodes to a checked policy.
//!
//! Every mistake is noted, so that one run shows them all; a policy comes out only when there
//! is none.

mod fields;
mod files;
mod gates;
mod keys;
mod limits;
mod lists;
mod network;
mod rules;

use std::path::{Path, PathBuf};

use crate::diagnostic::{Place, PolicyErrors, Report};
use crate::paths::Access;
use crate::policy::{Isolation, MAX_NAME_CHARS, Policy, SecretSource};
use crate::source::{MAX_TEXT_BYTES, PolicyText, Sourced};
use crate::tree::{self, Node};

use fields::{Decoder, Table};

#[cfg(test)]
pub(crate) use keys::SECTIONS;

/// Versions of the language that mean the same here.
const VERSIONS: [&str; 4] = ["2", "2.0", "1", "1.0"];

impl Policy {
    /// Checks a policy text.
    pub fn parse(text: &PolicyText) -> Result<Policy, PolicyErrors> {
        let readable = match readable(text) {
            Ok(readable) => readable,
            Err((place, message, remedy)) => {
                let first = &text.bytes[..text.bytes.len().min(MAX_TEXT_BYTES)];
                let shown = String::from_utf8_lossy(first);
                let mut report = Report::new(&text.name, &shown);
                report.mistake(place, message, remedy);
                return report.finish(None);
            }
        };
        let mut report = Report::new(&text.name, readable);
        let policy = tree::read(readable, &mut report).and_then(|root| {
            let mut decoder = Decoder {
                report: &mut report,
                base: &text.base,
                regexes: 0,
                regex_bytes: 0,
                regex_text: 0,
            };
            decoder.policy(&root)
        });
        report.finish(policy)
    }

    /// Checks a policy text that has no file, such as a preset.
    pub fn parse_str(name: &str, text: &str, base: &Path) -> Result<Policy, PolicyErrors> {
        let base = PathBuf::from(base);
        Policy::parse(&PolicyText { name: name.to_owned(), bytes: text.as_bytes().to_vec(), base })
    }
}

/// The bytes as text, unless they are too many or not text.
fn readable(text: &PolicyText) -> Result<&str, (Place, String, &'static str)> {
    if text.bytes.len() > MAX_TEXT_BYTES {
        let message = format!("the policy is larger than {MAX_TEXT_BYTES} bytes");
        return Err((Place::START, message, "split it, or check that this is the right file"));
    }
    let valid = match std::str::from_utf8(&text.bytes) {
        Ok(valid) => valid,
        Err(error) => {
            let before = String::from_utf8_lossy(&text.bytes[..error.valid_up_to()]);
            let message = "the policy is not UTF-8 text".to_owned();
            return Err((place_after(&before), message, "save it as UTF-8"));
        }
    };
    let valid = valid.strip_prefix('\u{feff}').unwrap_or(valid);
    // Some readers end a line, and with it a comment, where others do not; and marks of direction
    // show a person another text than is read.
    let strange = valid.char_indices().find(|(_, character)| is_misread(*character));
    if let Some((at, character)) = strange {
        let line = 1 + valid[..at].matches('\n').count();
        let column = 1 + valid[..at].chars().rev().take_while(|before| *before != '\n').count();
        let place = Place { line, column, width: 1 };
        let message =
            format!("the character U+{:04X} is read differently by others", u32::from(character));
        return Err((
            place,
            message,
            "remove it, or write it as an escape in quotes, such as \"\\u2028\"",
        ));
    }
    // A lone carriage return ends a line for YAML and for nobody's editor.
    let bare = valid.match_indices('\r').find(|(at, _)| !valid[at + 1..].starts_with('\n'));
    if let Some((at, _)) = bare {
        let message = "a carriage return without a line feed".to_owned();
        let remedy = "save the file with ordinary line ends";
        return Err((place_after(&valid[..at]), message, remedy));
    }
    Ok(valid)
}

/// The place of the character that follows a text.
fn place_after(text: &str) -> Place {
    let last = text.rsplit('\n').next().unwrap_or("");
    let line = 1 + text.matches('\n').count();
    Place { line, column: 1 + last.chars().count(), width: 1 }
}

/// Line ends of YAML 1.1 only, and marks of direction.
fn is_misread(character: char) -> bool {
    matches!(character,
        '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{61c}' | '\u{200e}' | '\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl Decoder<'_, '_> {
    fn policy(&mut self, root: &Node) -> Option<Policy> {
        let table = self.table(root, "a policy", keys::POLICY)?;
        self.version(&table);
        let name = self.name_of(&table);
        let description = table.get("description").and_then(|node| self.text(node, "description"));
        let isolation = self.isolation(&table);
        let limits = self.limits(&table);
        let (mounts, hide, workspace) = self.files(&table);
        let gates = self.gates(&table, &name);
        let policy = Policy {
            isolation,
            limits,
            mounts,
            hide,
            workspace,
            gates,
            network_blocklist: self.blocklist(&table),
            secrets: self.secrets(&table),
            tools: self.tools(&table),
            tool_arguments: self.tool_arguments(&table),
            commands: self.commands(&table),
            environment: self.environment(&table),
            seccomp: self.seccomp(&table),
            description: description.unwrap_or_default(),
            name,
        };
        self.foreign(&table);
        self.apart(&table, &policy);
        Some(policy)
    }

    /// What Stockade reads itself must lie apart from what is visible or writable inside.
    fn apart(&mut self, table: &Table<'_>, policy: &Policy) {
        for secret in &policy.secrets {
            let twice = policy.environment.iter().any(|variable| variable.name == secret.name);
            if twice {
                let message = format!("`{}` is both a secret and in `environment`", secret.name);
                self.mistake(table.key_place("secrets"), message, "keep one of the two");
            }
            if let SecretSource::File(file) = &secret.from
                && policy.shows_host_file(file, Access::Read)
            {
                let message = format!("the file of the secret `{}` is visible inside", secret.name);
                let remedy = "keep it outside every mount and the workspace";
                self.mistake(table.key_place("secrets"), message, remedy);
            }
        }
        for profile in &policy.seccomp {
            if policy.shows_host_file(&profile.value, Access::Write) {
                let message = "the seccomp profile can be changed from inside";
                let remedy = "keep it outside every writable mount and workspace";
                self.mistake(table.key_place("seccomp"), message, remedy);
            }
        }
    }

    fn version(&mut self, table: &Table<'_>) {
        let Some(node) = table.get("version") else { return };
        let Some(text) = self.scalar(node, "version") else { return };
        if !VERSIONS.contains(&text) {
            let message = format!("version `{text}` of the policy language is not known here");
            self.mistake(node.place, message, "write `version: \"2\"`; `1` and `1.0` load too");
        }
    }

    fn name_of(&mut self, table: &Table<'_>) -> String {
        let said = table.get("name").and_then(|node| {
            let text = self.text(node, "name")?;
            if text.is_empty() || text.chars().count() > MAX_NAME_CHARS {
                self.mistake(node.place, "a name has 1 to 200 characters", "choose another name");
            }
            Some(text)
        });
        said.unwrap_or_else(|| "unnamed".to_owned())
    }

    fn isolation(&mut self, table: &Table<'_>) -> Sourced<Isolation> {
        let unsaid = Sourced::built_in(Isolation::Process, "the floor when unsaid");
        let Some(node) = table.get("isolation") else { return unsaid };
        let words = Isolation::ALL.map(|floor| (floor.as_str(), floor));
        match self.word(node, "isolation", &words) {
            Some(floor) => self.sourced(floor, node),
            None => unsaid,
        }
    }

    /// Fields of a governance document that are not about a sandbox: accepted at their defaults,
    /// refused otherwise, because nothing here would honour them.
    fn foreign(&mut self, table: &Table<'_>) {
        if let Some(node) = table.get("inherit")
            && self.boolean(node, "inherit") == Some(false)
        {
            let message = "`inherit: false` is not enforced by a sandbox";
            self.mistake(
                node.place,
                message,
                "remove it: a policy here never inherits from folders",
            );
        }
        if let Some(node) = table.get_said("scope") {
            let message = "`scope` is not enforced by a sandbox";
            self.mistake(
                node.place,
                message,
                "remove it, and pass this policy only where it applies",
            );
        }
    }
}
