//! The versions requested from a version manager, and the source of each request.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::problem::Problem;
use super::resolve::Trust;

/// A program that manages several versions of an interpreter under one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    /// pyenv, for Python.
    Pyenv,
    /// asdf, for any language.
    Asdf,
    /// Volta, for Node.js.
    Volta,
}

impl fmt::Display for Manager {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Manager::Pyenv => "pyenv",
            Manager::Asdf => "asdf",
            Manager::Volta => "volta",
        })
    }
}

/// The version that a version manager selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The version manager.
    pub manager: Manager,
    /// Its name for the version.
    pub version: String,
    /// The variable or file that requests this version.
    pub said_by: String,
}

/// The requested versions; the first one that is installed is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) versions: Vec<String>,
    pub(super) said_by: String,
}

impl Asked {
    /// Checks that every version is a name below the manager's directory. Version files can come
    /// from untrusted projects, so a name like `../x` is refused and not looked up.
    pub(super) fn checked(self, manager: Manager) -> Result<Asked, Problem> {
        match self.versions.iter().find(|version| !is_name(version)) {
            None => Ok(self),
            Some(text) => {
                Err(Problem::BadVersion { manager, text: text.clone(), said_by: self.said_by })
            }
        }
    }
}

/// The nearest file with this name, from a directory upwards, with its text.
pub(super) fn nearest(
    start: &Path,
    name: &str,
    trust: Trust,
) -> Result<Option<(PathBuf, String)>, Problem> {
    for directory in start.ancestors().filter(|directory| directory.is_absolute()) {
        let file = directory.join(name);
        if let Some(text) = settings(&file, trust)? {
            return Ok(Some((file, text)));
        }
    }
    Ok(None)
}

/// The text of a small settings file, or `None` if the file does not exist.
pub(super) fn settings(file: &Path, trust: Trust) -> Result<Option<String>, Problem> {
    const MOST_BYTES: u64 = 64 * 1024;
    // Checked before trust: the owners of these directories matter only if they contain the file.
    if !file.is_file() {
        return Ok(None);
    }
    let resolved = trust.resolve(file)?;
    if resolved.metadata.len() > MOST_BYTES {
        return Err(Problem::BrokenSettings { file: file.to_path_buf(), key: "a short text" });
    }
    let bytes = fs::read(&resolved.real).map_err(|error| Problem::of_io(file, &error))?;
    let broken = |_| Problem::BrokenSettings { file: file.to_path_buf(), key: "UTF-8" };
    String::from_utf8(bytes).map(Some).map_err(broken)
}

/// Whether a text can be the name of a version: one or more plain path components.
fn is_name(version: &str) -> bool {
    const MOST_BYTES: usize = 128;
    version.len() <= MOST_BYTES
        && !version.contains(|character: char| character.is_control())
        && version.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use std::path::Component;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn version_names_are_distinguished_from_paths() {
        for name in ["3.11.7", "3.11.7/envs/mine", "system", "pypy3.10-7.3.15", "ref-abc"] {
            assert!(is_name(name), "{name}");
        }
        for path in ["", "/etc", "..", "../3.11", "3.11/../..", "a//b", "./a", "a/", "a\nb"] {
            assert!(!is_name(path), "{path}");
        }
    }

    proptest! {
        #[test]
        fn accepted_name_never_leaves_its_directory(name in "[./a\\x00]{0,12}") {
            if is_name(&name) {
                let plain = |part| matches!(part, Component::Normal(_));
                prop_assert!(Path::new(&name).components().all(plain), "{}", name);
            }
        }
    }
}
