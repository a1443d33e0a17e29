//! The event of a secret whose value was replaced.

use serde::{Deserialize, Serialize};

/// A new value of a secret, recorded once the gate sends it. It contains neither value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretReplaced {
    /// The secret, as the policy names it.
    pub name: String,
}
