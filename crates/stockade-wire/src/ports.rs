//! Connections of the host to servers inside.

use serde::{Deserialize, Serialize};

/// The first message on a stream of [`crate::Role::Port`]: connect to a port of loopback. After
/// [`PortReply::Connected`], raw bytes follow in both directions, each with an end of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortRequest {
    /// The port, at 127.0.0.1 or else ::1.
    pub port: u16,
}

/// The guest's answer to [`PortRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PortReply {
    /// The server accepts the connection.
    Connected,
    /// The kernel's error number.
    Failed(i32),
}

impl PortReply {
    /// The maximum length of the frame.
    pub const MAX_BYTES: usize = 128;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_reply_is_within_its_bound() {
        let longest = crate::encode(&PortReply::Failed(i32::MIN)).unwrap();
        assert!(longest.len() <= PortReply::MAX_BYTES);
    }
}
