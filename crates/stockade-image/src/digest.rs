//! SHA-256 digests, and streams that are hashed while they are read.

use std::fmt;
use std::io::{self, Read};

use sha2::{Digest as _, Sha256};

use crate::Refusal;

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// Parses `sha256:` and 64 lower-case hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Result<Digest, Refusal> {
        let hex = text.strip_prefix("sha256:").ok_or(Refusal::Algorithm)?;
        Digest::from_hex(hex).ok_or(Refusal::Algorithm)
    }

    /// Parses 64 lower-case hexadecimal digits.
    pub(crate) fn from_hex(hex: &str) -> Option<Digest> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut digest = [0; 32];
        if hex.len() != 2 * digest.len() {
            return None;
        }
        for (byte, pair) in digest.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Digest(digest))
    }

    /// The hexadecimal digits alone.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A stream that is hashed and counted while it is read.
pub(crate) struct Hashed<R> {
    source: R,
    hash: Sha256,
    bytes: u64,
}

impl<R: Read> Hashed<R> {
    pub(crate) fn new(source: R) -> Hashed<R> {
        Hashed { source, hash: Sha256::new(), bytes: 0 }
    }

    /// The stream behind it.
    pub(crate) fn source(&self) -> &R {
        &self.source
    }

    /// Reads the rest, and returns the digest and the size of all.
    pub(crate) fn finish(mut self) -> io::Result<(Digest, u64)> {
        io::copy(&mut self, &mut io::sink())?;
        Ok((Digest(self.hash.finalize().into()), self.bytes))
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.hash.update(&buffer[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_read_in_one_spelling_only() {
        let digest = Digest::of(b"");
        let text = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest.to_string(), text);
        assert_eq!(Digest::parse(text), Ok(digest));
        for wrong in [
            &text.to_uppercase(),
            &text[7..],
            &text[..70],
            "sha512:00",
            "sha256:../../../etc/passwd",
            "",
        ] {
            assert_eq!(Digest::parse(wrong), Err(Refusal::Algorithm), "{wrong}");
        }
    }
}
