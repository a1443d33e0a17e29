//! Converts a tree of YAML nodes to a checked policy.
//!
//! Collects every mistake, so that one run shows them all; returns a policy only if there are no
//! mistakes.

mod files;
mod gates;
mod keys;
mod limits;
mod lists;
mod network;
mod rules;
mod values;

use std::path::{Path, PathBuf};

use stockade_text::{Aliases, Dialect, Node, Table, TextErrors as PolicyErrors};

use crate::paths::Access;
use crate::policy::{Isolation, MAX_NAME_CHARS, Policy, SecretSource};
use crate::source::{PolicyText, Sourced};

use values::Decoder;

#[cfg(test)]
pub(crate) use keys::SECTIONS;

const DIALECT: Dialect = Dialect {
    name: "policy",
    language: "the policy language",
    when_empty: "write at least `{}` for the defaults, or start from `stockade policy init`",
    // The deepest sensible policy has seven levels.
    max_depth: 24,
    when_too_deep: "a policy needs no more than seven levels",
    max_nodes: 50_000,
    aliases: Aliases::Expanded,
    sections: keys::SECTIONS,
    other_words: keys::OTHER_WORDS,
    hidden: Some(("from", &["env:", "file:", "command:"])),
};

/// Versions of the language with the same meaning here.
const VERSIONS: [&str; 4] = ["2", "2.0", "1", "1.0"];

impl Policy {
    /// Checks a policy text.
    pub fn parse(text: &PolicyText) -> Result<Policy, PolicyErrors> {
        stockade_text::parse(&text.name, &text.bytes, &DIALECT, |root, report| {
            let mut decoder =
                Decoder { report, base: &text.base, regexes: 0, regex_bytes: 0, regex_text: 0 };
            decoder.policy(root)
        })
    }

    /// The values of a policy text as they are written: the YAML is checked, the keys are not.
    pub fn written(text: &PolicyText) -> Result<serde_json::Value, PolicyErrors> {
        stockade_text::parse(&text.name, &text.bytes, &DIALECT, |root, report| {
            root.json()
                .map_err(|node| report.mistake(node.place, "not a number of JSON", "write another"))
                .ok()
        })
    }

    /// Checks a text that was made from flags. `flags` has the flag behind each line, which
    /// decisions then name as their basis.
    pub fn parse_flags(
        text: &str,
        flags: &[Option<String>],
        base: &Path,
    ) -> Result<Policy, PolicyErrors> {
        stockade_text::parse("command line", text.as_bytes(), &DIALECT, |root, report| {
            report.set_flags(flags);
            let mut decoder = Decoder { report, base, regexes: 0, regex_bytes: 0, regex_text: 0 };
            decoder.policy(root)
        })
    }

    /// Checks a policy text without a file, such as a preset.
    pub fn parse_str(name: &str, text: &str, base: &Path) -> Result<Policy, PolicyErrors> {
        let base = PathBuf::from(base);
        Policy::parse(&PolicyText { name: name.to_owned(), bytes: text.as_bytes().to_vec(), base })
    }
}

impl Decoder<'_, '_> {
    fn policy(&mut self, root: &Node) -> Option<Policy> {
        let table = self.table(root, "a policy", keys::POLICY)?;
        self.version(&table);
        let name = self.name_of(&table);
        let description = table.get("description").and_then(|node| self.text(node, "description"));
        let isolation = self.isolation(&table);
        let limits = self.limits(&table);
        let (mounts, hide, workspace, files_exact) = self.files(&table);
        let gates = self.gates(&table, &name);
        let policy = Policy {
            isolation,
            limits,
            mounts,
            hide,
            workspace,
            files_exact,
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
        self.check_separation(&table, &policy);
        Some(policy)
    }

    /// Refuses files that Stockade itself reads if code inside can see or change them.
    fn check_separation(&mut self, table: &Table<'_>, policy: &Policy) {
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
            let message = format!("version `{text}` of the policy language is not supported");
            self.mistake(node.place, message, "write `version: \"2\"`; `1` and `1.0` load too");
        }
    }

    fn name_of(&mut self, table: &Table<'_>) -> String {
        let name = table.get("name").and_then(|node| {
            let text = self.text(node, "name")?;
            if text.is_empty() || text.chars().count() > MAX_NAME_CHARS {
                self.mistake(node.place, "a name has 1 to 200 characters", "choose another name");
            }
            Some(text)
        });
        name.unwrap_or_else(|| "unnamed".to_owned())
    }

    fn isolation(&mut self, table: &Table<'_>) -> Sourced<Isolation> {
        let otherwise = Sourced::built_in(Isolation::Process, "the default floor");
        let Some(node) = table.get("isolation") else { return otherwise };
        let words = Isolation::ALL.map(|floor| (floor.as_str(), floor));
        match self.word(node, "isolation", &words) {
            Some(floor) => self.sourced(floor, node),
            None => otherwise,
        }
    }

    /// Fields of a governance document that do not concern a sandbox: accepted at their default
    /// values, otherwise refused, because nothing here enforces them.
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
        if let Some(node) = table.get_non_null("scope") {
            let message = "`scope` is not enforced by a sandbox";
            self.mistake(
                node.place,
                message,
                "remove it, and pass this policy only where it applies",
            );
        }
    }
}
