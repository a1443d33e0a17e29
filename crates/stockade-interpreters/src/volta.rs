//! Volta: finds the Node.js that its shim would start.

use std::path::Path;

use serde_json::Value;

use super::problem::Problem;
use super::resolve::{Resolved, Trust};
use super::settle::Answer;
use super::version::{self, Asked};
use super::{Chosen, Manager, Surroundings};

const MANAGER: Manager = Manager::Volta;

/// Whether a name leads to the one executable that Volta uses for all its shims.
pub(super) fn is_shim(resolved: &Resolved) -> bool {
    resolved.real.file_name().is_some_and(|name| name == "volta-shim")
}

/// The version that Volta would start: the project's pinned version, or the user's default.
pub(super) fn answer(
    shim: &Resolved,
    surroundings: &Surroundings,
    trust: Trust,
) -> Result<Answer, Problem> {
    let none = || Problem::NoVersion { manager: MANAGER };
    // Shims are links in `bin` of Volta's home, wherever the executable itself is installed.
    let home = shim.names.first().and_then(|name| name.ancestors().nth(2)).ok_or_else(none)?;
    let asked =
        pinned(surroundings, trust)?.map_or_else(|| default(home, trust), |it| Ok(Some(it)));
    let Some(asked) = asked? else { return Ok(Answer::System) };
    let asked = asked.checked(MANAGER)?;
    let version = asked.versions.first().ok_or_else(none)?.clone();
    let place = home.join("tools/image/node");
    let name = place.join(&version).join("bin/node");
    if !name.is_file() {
        let Asked { versions, said_by } = asked;
        return Err(Problem::NotInstalled { manager: MANAGER, versions, said_by, place });
    }
    let chosen = Chosen { manager: MANAGER, version, said_by: asked.said_by };
    Ok(Answer::Program { name, chosen })
}

fn pinned(surroundings: &Surroundings, trust: Trust) -> Result<Option<Asked>, Problem> {
    let found = version::nearest(&surroundings.working_directory, "package.json", trust)?;
    let Some((file, text)) = found else { return Ok(None) };
    let project = parse(&file, &text)?;
    let volta = &project["volta"];
    match (volta.get("node"), volta.get("extends")) {
        (Some(node), _) => version_in(node, &file).map(Some),
        (None, None) => Ok(None),
        (None, Some(_)) => Err(Problem::BrokenSettings { file, key: "volta.node" }),
    }
}

fn default(home: &Path, trust: Trust) -> Result<Option<Asked>, Problem> {
    let file = home.join("tools/user/platform.json");
    let Some(text) = version::settings(&file, trust)? else { return Ok(None) };
    match parse(&file, &text)?["node"].get("runtime") {
        Some(runtime) => version_in(runtime, &file).map(Some),
        None => Ok(None),
    }
}

fn version_in(value: &Value, file: &Path) -> Result<Asked, Problem> {
    let said_by = file.display().to_string();
    let versions = value.as_str().map(|version| vec![version.to_owned()]);
    let broken = || Problem::BrokenSettings { file: file.to_path_buf(), key: "a version of node" };
    Ok(Asked { versions: versions.ok_or_else(broken)?, said_by })
}

fn parse(file: &Path, text: &str) -> Result<Value, Problem> {
    let broken = |_| Problem::BrokenSettings { file: file.to_path_buf(), key: "JSON" };
    serde_json::from_str(text).map_err(broken)
}
