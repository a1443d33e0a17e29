//! What the creator of a session sends to its supervisor in addition to a command line.

use serde::{Deserialize, Serialize};

use crate::run::narrowing::Narrowing;

/// The terms of a session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Terms {
    /// The name; `None` is that of the command line, or a random one.
    pub(crate) name: Option<String>,
    /// What narrows the arguments.
    pub(crate) narrowing: Narrowing,
    /// Whether the session ends when its creator closes its stream or ends, however it ends.
    pub(crate) is_tethered: bool,
}
