//! What a checkpoint is, without its files.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Hash, StoreError};

/// The name of a checkpoint: that of its session and its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    session: String,
    name: String,
}

impl Reference {
    /// Checks both names: letters, digits, `_`, `.` and `-`, at most 63, not starting with a sign.
    pub fn new(session: &str, name: &str) -> Result<Reference, StoreError> {
        for text in [session, name] {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
            let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
            if !starts_well || text.len() > 63 || !text.chars().all(is_plain) {
                return Err(StoreError::Name { name: text.chars().take(100).collect() });
            }
        }
        Ok(Reference { session: session.to_owned(), name: name.to_owned() })
    }

    /// A text that is a whole reference, or a name in a session.
    pub fn within(session: &str, text: &str) -> Result<Reference, StoreError> {
        match text.contains('/') {
            true => text.parse(),
            false => Reference::new(session, text),
        }
    }

    /// The session that was kept.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// The name in that session.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.session, self.name)
    }
}

impl FromStr for Reference {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Reference, StoreError> {
        match text.split_once('/') {
            Some((session, name)) => Reference::new(session, name),
            None => Err(StoreError::Name { name: text.chars().take(100).collect() }),
        }
    }
}

/// A writable place of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredPlace {
    /// Its path inside.
    pub path: String,
    /// The host directory below it, if the checkpoint has only the changes of that.
    pub base: Option<PathBuf>,
}

/// A checkpoint. Its files are in [`Contents`](crate::Contents).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// The version of this form.
    pub version: u32,
    /// The session that was kept.
    pub session: String,
    /// Its name in that session.
    pub name: String,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// When the sandbox was built, in milliseconds since 1970: host files that changed later may
    /// conflict.
    pub started_ms: u64,
    /// The wall.
    pub provider: String,
    /// The policy with every default filled in.
    pub policy: String,
    /// The writable places, by their numbers in the tree.
    pub places: Vec<StoredPlace>,
    /// Host directories that programs could write to; their files are the host's and not part of
    /// the checkpoint.
    pub shared: Vec<String>,
    /// How many entries the tree has.
    pub entries: u64,
    /// How many bytes of content the tree has, without holes.
    pub bytes: u64,
    /// How many bytes were new in the store, compressed.
    pub stored_bytes: u64,
    /// How many devices were left out.
    pub left_out: u64,
    /// How long programs were stopped, in microseconds.
    pub paused_us: u64,
    /// The blobs of the tree.
    pub tree: Vec<Hash>,
    /// Whether it came from a file: then another person may have chosen its policy and origin.
    pub imported: bool,
    /// The sessions that it was forked from, the nearest first.
    pub ancestors: Vec<String>,
    /// How the front end builds such a sandbox again.
    pub origin: serde_json::Value,
}

impl Checkpoint {
    /// The version that this code writes and reads.
    pub const VERSION: u32 = 1;

    /// Its name.
    pub fn reference(&self) -> Result<Reference, StoreError> {
        Reference::new(&self.session, &self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_is_two_plain_names() {
        let reference: Reference = "work/before.2".parse().unwrap();
        assert_eq!(reference.to_string(), "work/before.2");
        assert_eq!(Reference::within("work", "before.2").unwrap(), reference);
        assert_eq!(Reference::within("other", "work/before.2").unwrap(), reference);
        for wrong in ["a", "a/", "/b", "a/b/c", "../b", "a/..", "a/.b", "a/b c", "a/b\n", "ä/b"] {
            assert!(wrong.parse::<Reference>().is_err(), "{wrong:?}");
        }
        assert!(Reference::new("a", &"b".repeat(64)).is_err());
    }
}
