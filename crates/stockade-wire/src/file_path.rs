//! Names and paths of files in any bytes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A path or a name in any bytes except NUL, as the kernel accepts them.
///
/// JSON has no bytes: the text has one character for each byte, U+0000 to U+00FF.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PathBytes(Vec<u8>);

impl PathBytes {
    /// The maximum length: `PATH_MAX` without the final NUL.
    pub const MAX_BYTES: usize = 4095;

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for PathBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl TryFrom<Vec<u8>> for PathBytes {
    type Error = PathBytesError;

    fn try_from(bytes: Vec<u8>) -> Result<PathBytes, PathBytesError> {
        if bytes.len() > PathBytes::MAX_BYTES {
            return Err(PathBytesError::TooLong { bytes: bytes.len() });
        }
        match bytes.iter().position(|byte| *byte == 0) {
            Some(at) => Err(PathBytesError::Nul { at }),
            None => Ok(PathBytes(bytes)),
        }
    }
}

impl TryFrom<String> for PathBytes {
    type Error = PathBytesError;

    fn try_from(text: String) -> Result<PathBytes, PathBytesError> {
        let byte = |character| {
            u8::try_from(character).map_err(|_| PathBytesError::Character { character })
        };
        let bytes: Vec<u8> = text.chars().map(byte).collect::<Result<_, _>>()?;
        PathBytes::try_from(bytes)
    }
}

impl From<PathBytes> for String {
    fn from(path: PathBytes) -> String {
        path.0.into_iter().map(char::from).collect()
    }
}

/// Why bytes or a text are not a [`PathBytes`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathBytesError {
    /// Longer than the kernel accepts.
    #[error("a path of {bytes} bytes is over the limit of {}", PathBytes::MAX_BYTES)]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The kernel would end the path at a NUL byte.
    #[error("a path has a NUL byte at {at}")]
    Nul {
        /// The position of the first NUL byte.
        at: usize,
    },
    /// A character that represents no byte.
    #[error("the character {character:?} stands for no byte of a path")]
    Character {
        /// The first such character.
        character: char,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn path_is_bounded_and_has_no_nul_also_when_decoded() {
        assert_eq!(PathBytes::try_from(b"a\0".to_vec()), Err(PathBytesError::Nul { at: 1 }));
        let long = vec![b'a'; PathBytes::MAX_BYTES + 1];
        assert_eq!(PathBytes::try_from(long), Err(PathBytesError::TooLong { bytes: 4096 }));
        let decoded = serde_json::from_str::<PathBytes>(r#""a\u0000""#).unwrap_err();
        assert_eq!(decoded.to_string(), "a path has a NUL byte at 1");
        let decoded = serde_json::from_str::<PathBytes>(r#""a\u0100""#).unwrap_err();
        assert_eq!(decoded.to_string(), "the character 'Ā' stands for no byte of a path");
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_as_they_were_encoded(
            bytes in proptest::collection::vec(1_u8..=255, 0..200),
        ) {
            let path = PathBytes::try_from(bytes.clone()).unwrap();
            let text = serde_json::to_string(&path).unwrap();
            let decoded: PathBytes = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(decoded.as_bytes(), bytes.as_slice());
        }
    }
}
