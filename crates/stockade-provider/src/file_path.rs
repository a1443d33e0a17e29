//! Paths of files inside a sandbox.

use std::fmt;

/// A path inside a sandbox, in any bytes. A relative path starts in the sandbox's workspace.
///
/// Never empty, without NUL bytes and without `..`: no path leads out of where it starts except
/// through links inside.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePath(Vec<u8>);

/// Why bytes are not a [`FilePath`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilePathError {
    /// It has no bytes.
    #[error("the path is empty")]
    Empty,
    /// The kernel would end it at a NUL byte.
    #[error("the path has a NUL byte")]
    Nul,
    /// It is longer than the kernel accepts.
    #[error("the path has more than {} bytes", FilePath::MAX_BYTES)]
    TooLong,
    /// It has a component `..`.
    #[error("the path has the component `..`")]
    Traversal,
}

impl FilePath {
    /// The maximum length, `PATH_MAX` without the final NUL.
    pub const MAX_BYTES: usize = 4095;

    /// Checks bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<FilePath, FilePathError> {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Err(FilePathError::Empty);
        }
        if bytes.contains(&0) {
            return Err(FilePathError::Nul);
        }
        if bytes.len() > FilePath::MAX_BYTES {
            return Err(FilePathError::TooLong);
        }
        if bytes.split(|byte| *byte == b'/').any(|part| part == b"..") {
            return Err(FilePathError::Traversal);
        }
        Ok(FilePath(bytes))
    }

    /// Checks a path that names something below a directory: relative, and each component is a
    /// name.
    pub fn below(bytes: impl Into<Vec<u8>>) -> Result<FilePath, FilePathError> {
        let path = FilePath::new(bytes)?;
        let is_name = |part: &[u8]| !part.is_empty() && part != b".";
        match path.0.split(|byte| *byte == b'/').all(is_name) {
            true => Ok(path),
            false => Err(FilePathError::Traversal),
        }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether it starts at the root.
    pub fn is_absolute(&self) -> bool {
        self.0.starts_with(b"/")
    }
}

/// Shows bytes that are not printable ASCII as escapes.
impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.utf8_chunks() {
            for character in part.valid().chars() {
                match character.is_control() {
                    true => write!(f, "{}", character.escape_default())?,
                    false => write!(f, "{character}")?,
                }
            }
            write!(f, "{}", part.invalid().escape_ascii())?;
        }
        Ok(())
    }
}

impl fmt::Debug for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl TryFrom<&str> for FilePath {
    type Error = FilePathError;

    fn try_from(text: &str) -> Result<FilePath, FilePathError> {
        FilePath::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_keeps_any_bytes_but_not_nul_or_dot_dot() {
        let path = FilePath::new(*b"a/\xff\n..b").unwrap();
        assert_eq!(path.as_bytes(), b"a/\xff\n..b");
        assert_eq!(path.to_string(), "a/\\xff\\n..b");
        assert_eq!(FilePath::new(*b""), Err(FilePathError::Empty));
        assert_eq!(FilePath::new(*b"a\0"), Err(FilePathError::Nul));
        assert_eq!(FilePath::new(vec![b'a'; 4096]), Err(FilePathError::TooLong));
        for path in ["..", "../a", "a/..", "/a/../b"] {
            assert_eq!(FilePath::try_from(path), Err(FilePathError::Traversal), "{path}");
        }
    }

    #[test]
    fn path_below_a_directory_has_only_names() {
        assert!(FilePath::below(*b"a/b.c/..d").is_ok());
        for path in ["/a", "a/", "a//b", "./a", "a/.", ".", "a/../b"] {
            assert_eq!(FilePath::below(path), Err(FilePathError::Traversal), "{path}");
        }
    }
}
