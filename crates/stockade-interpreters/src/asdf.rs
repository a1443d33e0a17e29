//! asdf: finds the version that one of its shims would start.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::problem::Problem;
use super::resolve::Trust;
use super::settle::Answer;
use super::version::{self, Asked};
use super::{Chosen, Language, Manager, Surroundings};

const MANAGER: Manager = Manager::Asdf;

/// One shim, and the tool it starts.
pub(super) struct Shim<'a> {
    pub(super) file: &'a Path,
    pub(super) program: &'a OsStr,
    pub(super) language: Language,
}

/// Whether a script is an asdf shim.
pub(super) fn is_shim(text: &str) -> bool {
    text.lines().any(|line| {
        line.starts_with("# asdf-plugin: ")
            || (line.starts_with("exec ") && line.contains("asdf exec "))
    })
}

/// The program that asdf would start for this shim.
pub(super) fn answer(
    shim: &Shim<'_>,
    surroundings: &Surroundings,
    trust: Trust,
) -> Result<Answer, Problem> {
    let tool = match shim.language {
        Language::Python => "python",
        Language::JavaScript => "nodejs",
        Language::Bash => "bash",
    };
    let asked = asked(shim.language, tool, surroundings, trust)?
        .ok_or(Problem::NoVersion { manager: MANAGER })?;
    let data = match &surroundings.asdf_data_dir {
        Some(directory) => directory.clone(),
        None => shim.file.ancestors().nth(2).unwrap_or(Path::new("/")).to_path_buf(),
    };
    let place = data.join("installs").join(tool);
    for version in &asked.versions {
        if version == "system" {
            return Ok(Answer::System);
        }
        let name = directory_of(version, &place, &asked)?.join("bin").join(shim.program);
        if trust.resolve(&name).is_ok_and(|resolved| resolved.metadata.is_file()) {
            let version = version.clone();
            let chosen = Chosen { manager: MANAGER, version, said_by: asked.said_by };
            return Ok(Answer::Program { name, chosen });
        }
    }
    let Asked { versions, said_by } = asked;
    Err(Problem::NotInstalled { manager: MANAGER, versions, said_by, place })
}

/// The installation directory of a version; `path:` names a directory and `ref:` a built commit.
fn directory_of(version: &str, place: &Path, asked: &Asked) -> Result<PathBuf, Problem> {
    if let Some(directory) = version.strip_prefix("path:") {
        let directory = PathBuf::from(directory);
        return if directory.is_absolute() { Ok(directory) } else { Err(Problem::Relative) };
    }
    let name = version.replacen("ref:", "ref-", 1);
    let one = Asked { versions: vec![name.clone()], said_by: asked.said_by.clone() };
    one.checked(MANAGER)?;
    Ok(place.join(name))
}

/// The variable takes precedence, then the nearest file that names the tool, then the file in the
/// home directory.
fn asked(
    language: Language,
    tool: &str,
    surroundings: &Surroundings,
    trust: Trust,
) -> Result<Option<Asked>, Problem> {
    const FILE: &str = ".tool-versions";
    let variable = match language {
        Language::Python => (&surroundings.asdf_python_version, "ASDF_PYTHON_VERSION"),
        Language::JavaScript => (&surroundings.asdf_nodejs_version, "ASDF_NODEJS_VERSION"),
        Language::Bash => (&None, "ASDF_BASH_VERSION"),
    };
    if let (Some(value), name) = variable {
        let versions = value.to_string_lossy().split_whitespace().map(str::to_owned).collect();
        return Ok(Some(Asked { versions, said_by: name.to_owned() }));
    }
    let upwards = surroundings.working_directory.ancestors();
    for directory in upwards.chain(surroundings.home.as_deref()) {
        let file = directory.join(FILE);
        if !file.is_absolute() {
            continue;
        }
        let text = version::settings(&file, trust)?.unwrap_or_default();
        if let Some(versions) = listed(&text, tool) {
            return Ok(Some(Asked { versions, said_by: file.display().to_string() }));
        }
    }
    Ok(None)
}

/// The versions that a file names for a tool.
fn listed(text: &str, tool: &str) -> Option<Vec<String>> {
    text.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        (words.next()? == tool).then(|| words.map(str::to_owned).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shims_of_old_and_new_releases_are_recognised() {
        assert!(is_shim("#!/usr/bin/env bash\n# asdf-plugin: python 3.11.7\nexec x\n"));
        assert!(is_shim("#!/usr/bin/env bash\nexec /o/asdf/bin/asdf exec \"python3\" \"$@\"\n"));
        assert!(!is_shim("#!/bin/sh\necho asdf exec me\n"));
    }

    #[test]
    fn file_names_versions_for_each_tool() {
        let text = "# mine\nnodejs 20.1.0\npython 3.11.7 3.10.1 system # old\n";
        let python = vec!["3.11.7".to_owned(), "3.10.1".to_owned(), "system".to_owned()];
        assert_eq!(listed(text, "python"), Some(python));
        assert_eq!(listed(text, "ruby"), None);
    }

    #[test]
    fn version_that_is_a_path_is_refused() {
        let asked = Asked { versions: Vec::new(), said_by: "f".to_owned() };
        let place = Path::new("/a/installs/python");
        assert!(directory_of("../../../x", place, &asked).is_err());
        assert!(directory_of("path:x", place, &asked).is_err());
        assert_eq!(directory_of("path:/x", place, &asked), Ok("/x".into()));
        assert_eq!(directory_of("ref:v3", place, &asked), Ok(place.join("ref-v3")));
    }
}
