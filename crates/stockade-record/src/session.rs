//! The start and the end of a session.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::Digest;
use crate::shorten::may_be_cut;

/// The format number that this version writes. In format 1 connections and verdicts name no
/// execution; this version reads both.
pub(crate) const FORMAT: u32 = 2;

/// What will run, for which user, and under which policy. Contains neither code nor the values of
/// variables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionStarted {
    /// The format of the stream.
    pub format: u32,
    /// The version of Stockade.
    pub stockade: String,
    /// The policy.
    pub policy: PolicyDigest,
    /// The host user id of the caller.
    pub user: u32,
    /// What is to run.
    pub command: Command,
    /// The names of the caller's variables.
    pub variables: Vec<String>,
    /// The image that the session starts from, if the caller named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageUsed>,
}

/// An image that a session starts from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageUsed {
    /// Its digest, or its name if no digest is known.
    pub image: String,
    /// The names of its variables that no program gets.
    pub dropped_variables: Vec<String>,
}

impl SessionStarted {
    /// A start event in the format of this version.
    pub fn new(
        stockade: impl Into<String>,
        policy: PolicyDigest,
        user: u32,
        command: Command,
    ) -> SessionStarted {
        let (stockade, variables) = (stockade.into(), Vec::new());
        SessionStarted { format: FORMAT, stockade, policy, user, command, variables, image: None }
    }
}

/// A policy by its name and its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyDigest {
    /// Its name; a combined policy has its own name.
    pub name: String,
    /// The SHA-256 of its text as `stockade policy show` prints it.
    pub sha256: Digest,
}

impl PolicyDigest {
    /// The digest of a policy's whole text.
    pub fn of(name: impl Into<String>, text: &str) -> PolicyDigest {
        PolicyDigest { name: name.into(), sha256: Digest::of(text.as_bytes()) }
    }
}

/// The program to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The words of a command, or the arguments of code.
    pub argv: Vec<String>,
    /// The SHA-256 of all words, each followed by a zero byte, because `argv` may be shortened.
    pub argv_sha256: Digest,
    /// The code, if it is a file of its own.
    pub code: Option<CodeDigest>,
}

impl Command {
    /// A command, or the arguments of code.
    pub fn of(argv: &[String], code: Option<CodeDigest>) -> Command {
        Command { argv: argv.to_vec(), argv_sha256: digest(argv), code }
    }

    /// Whether the hash matches the words, if they are not shortened.
    pub(crate) fn has_own_hash(&self) -> bool {
        self.argv_sha256 == digest(&self.argv) || may_be_cut(&self.argv)
    }
}

fn digest(argv: &[String]) -> Digest {
    let mut hash = Sha256::new();
    for word in argv {
        hash.update(word.as_bytes());
        hash.update([0]);
    }
    Digest::from_bytes(hash.finalize().into())
}

/// Code by its language and its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodeDigest {
    /// Its language.
    pub language: String,
    /// The name of its file inside.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: Digest,
}

impl CodeDigest {
    /// The digest of code.
    pub fn of(language: impl Into<String>, name: impl Into<String>, code: &[u8]) -> CodeDigest {
        let bytes = u64::try_from(code.len()).unwrap_or(u64::MAX);
        CodeDigest { language: language.into(), name: name.into(), bytes, sha256: Digest::of(code) }
    }
}

/// The end of a session; it completes the stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionEnded {
    /// How it ended, in one word: an outcome, or `error`.
    pub outcome: String,
    /// The number of events before this one.
    pub events: u64,
}
