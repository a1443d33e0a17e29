//! Messages between host and guest on the control stream.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::execution::{
    Ended, Execute, ExecutionStarted, Kill, NoTerminal, NotStarted, Observe, Observed, Resize,
    Resized, Signal,
};

/// The protocol version.
///
/// The formats of [`Hello`] and [`HelloReply`] never change, so that two ends of different versions
/// report the version mismatch and not a malformed message.
pub const PROTOCOL_VERSION: u32 = 10;

/// A message from the host on the control stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostMessage {
    /// The host's first message.
    Hello(Hello),
    /// Start a program.
    Execute(Box<Execute>),
    /// Send a signal to one program.
    Signal(Signal),
    /// Kill one program and its process group.
    Kill(Kill),
    /// Resize the terminal of one program.
    Resize(Resize),
    /// Report on one program.
    Observe(Observe),
    /// Stop all processes inside until [`HostMessage::Resume`].
    Pause,
    /// Continue all processes inside.
    Resume,
    /// From now on both ends send beats. Without this message neither end does, and only the end of
    /// the stream shows that the other end is gone.
    Heartbeat(Heartbeat),
    /// The host is alive.
    Beat,
}

/// A message from the guest on the control stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuestMessage {
    /// The guest answers a [`Hello`].
    HelloReply(HelloReply),
    /// A program could not be started.
    NotStarted(NotStarted),
    /// A program runs.
    Started(ExecutionStarted),
    /// A program has ended.
    Ended(Ended),
    /// Answers [`HostMessage::Observe`].
    Observed(Observed),
    /// Answers [`HostMessage::Resize`].
    Resized(Resized),
    /// Answers [`HostMessage::Resize`] for a program without a terminal.
    NoTerminal(NoTerminal),
    /// The guest is alive.
    Beat,
}

/// The host's first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The [`PROTOCOL_VERSION`] of the host.
    pub version: u32,
    /// The reply repeats it, so that an old reply is not accepted.
    pub nonce: Nonce,
}

/// How often each end sends a beat, and how many intervals without any byte end the link.
///
/// Each end counts intervals and does not measure time: an end that was itself stopped reads the
/// bytes that arrived meanwhile before it counts the next interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The interval.
    pub every_ms: u64,
    /// How many silent intervals in a row are allowed; one more ends the sandbox.
    pub missed: u32,
}

/// The guest's answer to [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HelloReply {
    /// The [`PROTOCOL_VERSION`] of the guest.
    pub version: u32,
    /// The nonce of the [`Hello`] this answers.
    pub nonce: Nonce,
    /// The release the guest was built from.
    pub guest_version: GuestVersion,
    /// The guest's process id as the guest sees it.
    pub pid: u32,
}

/// Sixteen random bytes that tie a reply to its hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nonce(pub [u8; 16]);

/// A release name that is safe to print: short, and only digits, letters and `.`, `+`, `-`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GuestVersion(String);

impl GuestVersion {
    const MAX_BYTES: usize = 64;

    /// The release name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GuestVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl TryFrom<String> for GuestVersion {
    type Error = GuestVersionError;

    fn try_from(text: String) -> Result<GuestVersion, GuestVersionError> {
        if text.is_empty() || text.len() > GuestVersion::MAX_BYTES {
            return Err(GuestVersionError::Length { bytes: text.len() });
        }
        match text.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '+' | '-')) {
            Some(character) => Err(GuestVersionError::Character { character }),
            None => Ok(GuestVersion(text)),
        }
    }
}

impl From<GuestVersion> for String {
    fn from(version: GuestVersion) -> String {
        version.0
    }
}

/// Why a text is not a [`GuestVersion`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GuestVersionError {
    /// Empty or too long.
    #[error("a guest version has 1 to {} bytes, not {bytes}", GuestVersion::MAX_BYTES)]
    Length {
        /// The length of the text.
        bytes: usize,
    },
    /// A character that is not allowed in a release name.
    #[error("a guest version cannot contain {character:?}")]
    Character {
        /// The first such character.
        character: char,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_version_with_terminal_escapes_is_refused() {
        let refused = GuestVersion::try_from("0.1.0\u{1b}[2J".to_owned());
        assert_eq!(refused, Err(GuestVersionError::Character { character: '\u{1b}' }));
    }

    #[test]
    fn guest_version_is_bounded() {
        assert!(GuestVersion::try_from("9".repeat(64)).is_ok());
        let long = GuestVersion::try_from("9".repeat(65));
        assert_eq!(long, Err(GuestVersionError::Length { bytes: 65 }));
        let empty = GuestVersion::try_from(String::new());
        assert_eq!(empty, Err(GuestVersionError::Length { bytes: 0 }));
    }
}
