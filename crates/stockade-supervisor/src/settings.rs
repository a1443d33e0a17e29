//! The limits in time of a session.

use std::time::Duration;

/// The limits in time of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// How long the session may exist.
    pub ttl: Option<Duration>,
    /// How long it may exist without a program or a request.
    pub idle: Option<Duration>,
}
