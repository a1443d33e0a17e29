//! The names of images.

use std::fmt;

use crate::ImageError;

/// A name with a tag, in the form that `docker images` prints: `python:3.11-slim`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference(String);

impl Reference {
    /// Parses a name with or without a registry and a tag.
    pub fn parse(text: &str) -> Result<Reference, ImageError> {
        const MOST_BYTES: usize = 255;
        let wrong = || ImageError::Reference { text: text.chars().take(MOST_BYTES).collect() };
        let shortened = ["docker.io/library/", "index.docker.io/library/", "docker.io/"];
        let short = shortened.iter().find_map(|prefix| text.strip_prefix(prefix));
        let short = short.unwrap_or(text);
        let (name, tag) = match short.rsplit_once(':') {
            // A colon before a slash belongs to the port of a registry.
            Some((name, tag)) if !tag.contains('/') => (name, tag),
            _ => (short, "latest"),
        };
        let is_name_byte =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        let is_part = |part: &str| {
            part.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
                && part.bytes().all(is_name_byte)
        };
        let is_tag_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_tag = tag.bytes().next().is_some_and(|byte| !b".-".contains(&byte))
            && tag.len() <= 128
            && tag.bytes().all(is_tag_byte);
        let mut parts = name.split('/');
        let first = parts.next().unwrap_or_default();
        // A registry may have a port.
        let host = match (first.split_once(':'), name.contains('/')) {
            (Some((host, port)), true) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => first,
        };
        match text.len() <= MOST_BYTES && is_tag && is_part(host) && parts.all(is_part) {
            true => Ok(Reference(format!("{name}:{tag}"))),
            false => Err(wrong()),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_name_are_one_reference() {
        for (text, expected) in [
            ("python", "python:latest"),
            ("python:3.11-slim", "python:3.11-slim"),
            ("docker.io/library/python:3", "python:3"),
            ("docker.io/me/tool", "me/tool:latest"),
            ("registry.test:5000/a/b", "registry.test:5000/a/b:latest"),
            ("registry.test:5000/a/b:V1", "registry.test:5000/a/b:V1"),
        ] {
            assert_eq!(Reference::parse(text).unwrap().as_str(), expected);
        }
    }

    #[test]
    fn text_that_is_an_option_a_path_or_a_digest_is_refused() {
        for text in [
            "",
            "-x",
            "--privileged",
            "../x",
            "a/../b",
            "/a",
            "a//b",
            "a b",
            "a:",
            "a:b:c",
            "A",
            "a\n",
            "a@sha256:00",
            "a:-x",
            "a:.x",
            &"a".repeat(300),
        ] {
            assert!(Reference::parse(text).is_err(), "{text}");
        }
    }
}
