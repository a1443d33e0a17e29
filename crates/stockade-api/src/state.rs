//! Checkpoints of a session.

use serde::{Deserialize, Serialize};
use stockade_wire::PathBytes;

/// A store of checkpoints, as the client names it: both are processes of one user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreParams {
    /// Its directory.
    pub directory: PathBytes,
    /// The most bytes that its packs may have.
    pub quota: u64,
}

/// What becomes of the files of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestoreParams {
    /// The store.
    pub store: StoreParams,
    /// The checkpoint, as `SESSION/NAME` or by its name in the session or one that it was forked
    /// from; `None` discards every change.
    pub checkpoint: Option<String>,
    /// End running programs first; otherwise they prevent it.
    pub force: bool,
    /// Also take a checkpoint of another policy. The policy stays that of the session.
    pub any_policy: bool,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointView {
    /// `SESSION/NAME`.
    pub reference: String,
    /// The session that was kept.
    pub session: String,
    /// Its name in that session.
    pub name: String,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// The wall.
    pub provider: String,
    /// How many entries it has.
    pub entries: u64,
    /// How many bytes of content it has, without holes.
    pub bytes: u64,
    /// How many bytes were new in the store, compressed.
    pub stored_bytes: u64,
    /// How long programs were stopped, in microseconds.
    pub paused_us: u64,
    /// Directories inside where programs write to the host; the checkpoint does not have them.
    pub shared: Vec<String>,
}
