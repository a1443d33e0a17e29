//! pyenv: finds the version that one of its shims would start.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::problem::Problem;
use super::resolve::Trust;
use super::settle::Answer;
use super::version::{self, Asked};
use super::{Chosen, Manager, Surroundings};

const MANAGER: Manager = Manager::Pyenv;

/// The root of pyenv, if this script is one of its shims. The shim contains the root; otherwise it
/// is the parent of the directory `shims`.
pub(super) fn root_of_shim(text: &str, shim: &Path) -> Option<PathBuf> {
    let hands_over = |line: &str| {
        line.starts_with("exec ")
            && (line.contains("/pyenv\" exec ") || line.contains("pyenv exec "))
    };
    text.lines().find(|line| hands_over(line.trim()))?;
    let said = text.lines().find_map(|line| {
        line.trim().strip_prefix("export PYENV_ROOT=\"")?.strip_suffix('"').map(PathBuf::from)
    });
    said.filter(|root| root.is_absolute())
        .or_else(|| shim.parent()?.parent().map(Path::to_path_buf))
}

/// The program that pyenv would start for this name.
pub(super) fn answer(
    root: &Path,
    program: &OsStr,
    surroundings: &Surroundings,
    trust: Trust,
) -> Result<Answer, Problem> {
    let Some(asked) = asked(root, surroundings, trust)? else { return Ok(Answer::System) };
    let asked = asked.checked(MANAGER)?;
    let place = root.join("versions");
    for version in &asked.versions {
        if version == "system" {
            return Ok(Answer::System);
        }
        let Some(version) = installed(&place, version) else { continue };
        let name = place.join(&version).join("bin").join(program);
        if trust.resolve(&name).is_ok_and(|resolved| resolved.metadata.is_file()) {
            let chosen = Chosen { manager: MANAGER, version, said_by: asked.said_by };
            return Ok(Answer::Program { name, chosen });
        }
    }
    let Asked { versions, said_by } = asked;
    Err(Problem::NotInstalled { manager: MANAGER, versions, said_by, place })
}

/// The variable takes precedence, then the nearest file, then the global file.
fn asked(root: &Path, surroundings: &Surroundings, trust: Trust) -> Result<Option<Asked>, Problem> {
    if let Some(value) = &surroundings.pyenv_version {
        let value = value.to_string_lossy();
        let versions = value.split(':').map(str::to_owned).collect();
        return Ok(Some(Asked { versions, said_by: "PYENV_VERSION".to_owned() }));
    }
    let global = root.join("version");
    let files = [
        version::nearest(&surroundings.working_directory, ".python-version", trust)?,
        version::settings(&global, trust)?.map(|text| (global, text)),
    ];
    let asked = files.into_iter().flatten().find_map(|(file, text)| {
        let versions = listed(&text);
        let said_by = file.display().to_string();
        (!versions.is_empty()).then_some(Asked { versions, said_by })
    });
    Ok(asked)
}

/// The versions in a file: the first word of each line that is not a comment.
fn listed(text: &str) -> Vec<String> {
    let line = |line: &str| line.split('#').next()?.split_whitespace().next().map(str::to_owned);
    text.lines().filter_map(line).collect()
}

/// The directory name of a version: the version itself, the version without `python-`, or the
/// newest one that starts with it.
fn installed(place: &Path, version: &str) -> Option<String> {
    let plain = version.strip_prefix("python-").unwrap_or(version);
    if let Some(exact) = [version, plain].into_iter().find(|name| place.join(name).is_dir()) {
        return Some(exact.to_owned());
    }
    let beginning = format!("{plain}.");
    let names = fs::read_dir(place).ok()?.flatten();
    names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(&beginning) && numbers(name).is_some())
        .max_by_key(|name| numbers(name))
}

/// A version as numbers; `None` for pre-releases and named environments.
fn numbers(version: &str) -> Option<Vec<u32>> {
    version.split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shim_contains_its_root() {
        let text = "#!/usr/bin/env bash\nexport PYENV_ROOT=\"/p\"\nexec \"/p/libexec/pyenv\" exec \"$program\" \"$@\"\n";
        assert_eq!(root_of_shim(text, Path::new("/q/shims/python")), Some("/p".into()));
        let silent = "#!/bin/sh\nexec pyenv exec python \"$@\"\n";
        assert_eq!(root_of_shim(silent, Path::new("/q/shims/python")), Some("/q".into()));
        assert_eq!(root_of_shim("#!/bin/sh\n# pyenv exec\n", Path::new("/q/shims/python")), None);
    }

    #[test]
    fn version_file_has_one_version_per_line() {
        assert_eq!(listed("3.12.1 # newest\n\n# 3.9\n  3.11.7\n"), ["3.12.1", "3.11.7"]);
        assert_eq!(listed("\n#\n"), Vec::<String>::new());
    }

    #[test]
    fn newest_is_by_number_and_never_a_release_candidate() {
        assert!(numbers("3.11.10") > numbers("3.11.9"));
        assert_eq!(numbers("3.13.0rc1"), None);
    }
}
