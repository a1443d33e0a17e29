//! The limits in time of a session.

use std::time::Duration;

use stockade_policy::{Limit, Policy};

/// The limits in time of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// How long the session may exist.
    pub ttl: Option<Duration>,
    /// How long it may exist without a program or a request.
    pub idle: Option<Duration>,
}

impl Settings {
    /// The limits `max_lifetime_seconds` and `idle_seconds` of a policy.
    pub fn of(policy: &Policy) -> Settings {
        let limit = |limit| policy.limits.value(limit).map(Duration::from_millis);
        Settings { ttl: limit(Limit::Lifetime), idle: limit(Limit::Idle) }
    }
}
