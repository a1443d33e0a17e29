//! The two places of a copy, and where a copy goes.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// One of the two places.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// In a session.
    Session { name: String, path: Vec<u8> },
    /// On this host.
    Host(OsString),
    /// A tar archive on standard input or output.
    Stream,
}

impl Endpoint {
    /// `SESSION:PATH`, `-`, or a path of the host. As with docker, a path with a colon starts with
    /// `/` or `.`.
    pub(super) fn parse(text: &OsStr) -> Endpoint {
        let bytes = text.as_bytes();
        if bytes == b"-" {
            return Endpoint::Stream;
        }
        let host = || Endpoint::Host(text.to_owned());
        if bytes.starts_with(b"/") || bytes.starts_with(b".") {
            return host();
        }
        let Some(colon) = bytes.iter().position(|byte| *byte == b':') else { return host() };
        match std::str::from_utf8(&bytes[..colon]) {
            Ok(name) if !name.is_empty() && !name.contains('/') => {
                let path = match &bytes[colon + 1..] {
                    [] => b".".to_vec(),
                    path => path.to_vec(),
                };
                Endpoint::Session { name: name.to_owned(), path }
            }
            _ => host(),
        }
    }
}

/// What is at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    Other,
}

/// Where the copy of a source goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Into this directory under this name.
    Named { directory: Vec<u8>, name: Vec<u8> },
    /// What the source contains goes into this directory.
    Contents { directory: Vec<u8> },
}

/// Why a source cannot go to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mismatch {
    /// A directory cannot replace a file.
    DirectoryToFile,
    /// The target ends with a slash, but is no directory.
    NoDirectory,
}

/// Decides as docker does: into an existing directory under the source's own name, or else as the
/// target's name; `SOURCE/.` means what the directory contains.
pub(super) fn decide(
    (source, source_kind): (&[u8], Kind),
    (target, target_kind): (&[u8], Option<Kind>),
) -> Result<Target, Mismatch> {
    let contents = source_kind == Kind::Directory && is_contents(source);
    let as_named = || {
        let (directory, name) = split(target);
        Target::Named { directory, name }
    };
    match target_kind {
        Some(Kind::Directory) if contents => Ok(Target::Contents { directory: target.to_vec() }),
        Some(Kind::Directory) => {
            Ok(Target::Named { directory: target.to_vec(), name: split(source).1 })
        }
        Some(Kind::Other) if source_kind == Kind::Directory => Err(Mismatch::DirectoryToFile),
        Some(Kind::Other) | None if source_kind == Kind::Other && target.ends_with(b"/") => {
            Err(Mismatch::NoDirectory)
        }
        Some(Kind::Other) | None => Ok(as_named()),
    }
}

fn is_contents(source: &[u8]) -> bool {
    source == b"." || source.ends_with(b"/.")
}

/// The directory and the last name of a path.
pub(super) fn split(path: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    while parts.len() > 1 && matches!(parts.last(), Some(&b"" | &b".")) {
        parts.pop();
    }
    let name = parts.pop().unwrap_or_default().to_vec();
    let directory = match parts.as_slice() {
        [] if path.starts_with(b"/") => b"/".to_vec(),
        [] => b".".to_vec(),
        [b""] => b"/".to_vec(),
        parts => parts.join(&b'/'),
    };
    match name.as_slice() {
        b"" => (directory, b".".to_vec()),
        _ => (directory, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(name: &str, path: &str) -> Endpoint {
        Endpoint::Session { name: name.to_owned(), path: path.as_bytes().to_vec() }
    }

    #[test]
    fn places_are_told_apart_as_docker_does() {
        let parse = |text: &str| Endpoint::parse(OsStr::new(text));
        assert_eq!(parse("-"), Endpoint::Stream);
        assert_eq!(parse("s:/a/b"), session("s", "/a/b"));
        assert_eq!(parse("s:a:b"), session("s", "a:b"));
        assert_eq!(parse("s:"), session("s", "."));
        for host in ["a", "./a:b", "/a:b", "a/b:c", ":a", "../x"] {
            assert_eq!(parse(host), Endpoint::Host(host.into()), "{host}");
        }
    }

    #[test]
    fn copies_go_where_docker_puts_them() {
        use Kind::{Directory, Other};
        let named = |directory: &str, name: &str| {
            let (directory, name) = (directory.as_bytes().to_vec(), name.as_bytes().to_vec());
            Ok(Target::Named { directory, name })
        };
        let contents =
            |directory: &str| Ok(Target::Contents { directory: directory.as_bytes().to_vec() });
        let decide = |source: &str, source_kind, target: &str, target_kind| {
            decide((source.as_bytes(), source_kind), (target.as_bytes(), target_kind))
        };
        assert_eq!(decide("/x/f", Other, "/y/g", None), named("/y", "g"));
        assert_eq!(decide("f", Other, "g", Some(Other)), named(".", "g"));
        assert_eq!(decide("f", Other, "/d", Some(Directory)), named("/d", "f"));
        assert_eq!(decide("f", Other, "d/", None), Err(Mismatch::NoDirectory));
        assert_eq!(decide("x/d", Directory, "e", None), named(".", "e"));
        assert_eq!(decide("x/d/", Directory, "e", Some(Directory)), named("e", "d"));
        assert_eq!(decide("x/d/.", Directory, "e", Some(Directory)), contents("e"));
        assert_eq!(decide("x/d/.", Directory, "e", None), named(".", "e"));
        assert_eq!(decide("d", Directory, "f", Some(Other)), Err(Mismatch::DirectoryToFile));
        assert_eq!(split(b"/"), (b"/".to_vec(), b".".to_vec()));
        assert_eq!(split(b"/a/b//"), (b"/a".to_vec(), b"b".to_vec()));
    }
}
