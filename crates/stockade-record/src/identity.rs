//! Session ids.

use std::fmt;
use std::io;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use stockade_sys::random_bytes;

use crate::Time;

/// The form of the timestamp part, and the length of the random part.
const MOMENT: &str = "########-######-######";
const RANDOM_CHARACTERS: usize = 32;

/// The id of a session: its start time and 128 random bits, so that ids sort by time and cannot be
/// guessed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(String);

/// The text is not a session id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a session is named by its moment and 32 hexadecimal digits")]
pub struct IdentityError;

impl SessionId {
    /// A new id for a session that starts at `began`. Fails if the kernel returns no random bytes.
    pub fn new(began: Time) -> io::Result<SessionId> {
        let random = u128::from_be_bytes(random_bytes::<16>()?);
        Ok(SessionId(format!("{}-{random:032x}", began.digits())))
    }

    /// Parses an id.
    pub fn parse(text: &str) -> Result<SessionId, IdentityError> {
        let (moment, random) = text.split_at_checked(MOMENT.len()).ok_or(IdentityError)?;
        let random = random.strip_prefix('-').ok_or(IdentityError)?;
        let is_digit = |(found, wanted): (u8, u8)| match wanted {
            b'#' => found.is_ascii_digit(),
            other => found == other,
        };
        let is_hexadecimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_name = moment.bytes().zip(MOMENT.bytes()).all(is_digit)
            && random.len() == RANDOM_CHARACTERS
            && random.bytes().all(is_hexadecimal);
        if is_name { Ok(SessionId(text.to_owned())) } else { Err(IdentityError) }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the id, or its random part, starts with a text that the user typed.
    pub fn begins_with(&self, text: &str) -> bool {
        let random = self.0.get(MOMENT.len() + 1..).unwrap_or_default();
        !text.is_empty() && (self.0.starts_with(text) || random.starts_with(text))
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for SessionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SessionId, D::Error> {
        SessionId::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_two_of_one_moment_differ() {
        let early = Time::from_unix_microseconds(1_785_233_472_000_045).unwrap();
        let late = Time::from_unix_microseconds(1_785_233_472_000_046).unwrap();
        let (first, second) = (SessionId::new(early).unwrap(), SessionId::new(late).unwrap());
        assert!(first < second && first.as_str() < second.as_str());
        assert_ne!(first, SessionId::new(early).unwrap());
        assert_eq!(SessionId::parse(first.as_str()), Ok(first));
    }

    #[test]
    fn invalid_ids_are_rejected() {
        let name = "20260728-101112-000045-0123456789abcdef0123456789abcdef";
        assert!(SessionId::parse(name).is_ok());
        for (from, to) in
            [("f", "F"), ("-", "_"), ("2026", "../x"), ("abcdef", "abcdeg"), ("1", "")]
        {
            let other = name.replacen(from, to, 1);
            assert_eq!(SessionId::parse(&other), Err(IdentityError), "{other}");
        }
        assert_eq!(SessionId::parse(""), Err(IdentityError));
        assert_eq!(SessionId::parse("ä".repeat(30).as_str()), Err(IdentityError));
    }

    #[test]
    fn id_matches_a_prefix_of_its_time_or_of_its_random_part() {
        let name = "20260728-101112-000045-0123456789abcdef0123456789abcdef";
        let name = SessionId::parse(name).unwrap();
        assert!(name.begins_with("20260728") && name.begins_with("0123"));
        assert!(!name.begins_with("123") && !name.begins_with(""));
    }
}
