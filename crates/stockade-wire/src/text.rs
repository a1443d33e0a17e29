//! Strings for execve(2).

use std::ffi::CString;
use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// UTF-8 without NUL bytes, and no longer than the kernel accepts for one argument, execve(2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Text(String);

impl Text {
    /// The maximum length: `MAX_ARG_STRLEN` minus the final NUL.
    pub const MAX_BYTES: usize = (128 << 10) - 1;

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text with a final NUL, for system calls.
    pub fn to_c_string(&self) -> CString {
        CString::new(self.0.as_bytes()).expect("a Text has no NUL byte")
    }
}

impl TryFrom<String> for Text {
    type Error = TextError;

    fn try_from(text: String) -> Result<Text, TextError> {
        if text.len() > Text::MAX_BYTES {
            return Err(TextError::TooLong { bytes: text.len() });
        }
        match text.bytes().position(|byte| byte == 0) {
            Some(at) => Err(TextError::Nul { at }),
            None => Ok(Text(text)),
        }
    }
}

impl TryFrom<&str> for Text {
    type Error = TextError;

    fn try_from(text: &str) -> Result<Text, TextError> {
        Text::try_from(text.to_owned())
    }
}

impl From<Text> for String {
    fn from(text: Text) -> String {
        text.0
    }
}

/// Why a string is not a [`Text`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// Longer than the kernel accepts.
    #[error("a text of {bytes} bytes is over the limit of {}", Text::MAX_BYTES)]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The kernel would end the text at a NUL byte.
    #[error("a text has a NUL byte at {at}")]
    Nul {
        /// The position of the first NUL byte.
        at: usize,
    },
}

/// Deserializes a list of at most [`MAX_LIST_ENTRIES`].
pub(crate) fn bounded_list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_seq(BoundedList(std::marker::PhantomData))
}

/// The maximum number of arguments or variables of one execution.
pub(crate) const MAX_LIST_ENTRIES: usize = 16 << 10;

struct BoundedList<T>(std::marker::PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for BoundedList<T> {
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a list of at most {MAX_LIST_ENTRIES} entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(entry) = entries.next_element()? {
            if list.len() == MAX_LIST_ENTRIES {
                return Err(serde::de::Error::invalid_length(list.len() + 1, &self));
            }
            list.push(entry);
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_with_a_nul_byte_is_refused_also_when_decoded() {
        assert_eq!(Text::try_from("a\0b"), Err(TextError::Nul { at: 1 }));
        let decoded = serde_json::from_str::<Text>(r#""a\u0000b""#).unwrap_err();
        assert_eq!(decoded.to_string(), "a text has a NUL byte at 1");
    }

    #[test]
    fn text_is_bounded() {
        assert!(Text::try_from("x".repeat(Text::MAX_BYTES)).is_ok());
        let long = Text::try_from("x".repeat(Text::MAX_BYTES + 1));
        assert_eq!(long, Err(TextError::TooLong { bytes: Text::MAX_BYTES + 1 }));
    }

    #[test]
    fn list_is_bounded_when_decoded() {
        #[derive(Debug, Deserialize)]
        struct Holder(#[serde(deserialize_with = "bounded_list")] Vec<u8>);
        let full = serde_json::to_string(&vec![0; MAX_LIST_ENTRIES]).unwrap();
        assert_eq!(serde_json::from_str::<Holder>(&full).unwrap().0.len(), MAX_LIST_ENTRIES);
        let over = serde_json::to_string(&vec![0; MAX_LIST_ENTRIES + 1]).unwrap();
        let refused = serde_json::from_str::<Holder>(&over).unwrap_err().to_string();
        assert!(refused.contains("a list of at most 16384 entries"), "{refused}");
    }
}
