//! Checks the requested tool files before anything is built.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use stockade_launcher::ToolFile;
use stockade_policy::Policy;
use stockade_provider::{SandboxRequest, ToolAccess};

use crate::error::StartError;

/// The maximum total size of all files, and their maximum number.
const MOST_BYTES: usize = 4 << 20;
const MOST_FILES: usize = 256;

/// The files in the format of a plan; `None` without tools.
pub(crate) fn files(request: &SandboxRequest) -> Result<Option<Vec<ToolFile>>, StartError> {
    let Some(access) = &request.tools else { return Ok(None) };
    if !request.gateway.as_ref().is_some_and(|gateway| gateway.carries().tools) {
        return Err(wrong(
            "no tool broker answers calls",
            "pass a gateway that carries tool calls",
        ));
    }
    place_is_free(&request.policy)?;
    let bytes: usize = access.files.iter().map(|(_, content)| content.len()).sum();
    if bytes > MOST_BYTES || access.files.len() > MOST_FILES {
        let reason = format!(
            "their descriptions are {bytes} bytes in {} files, and at most {MOST_BYTES} in \
             {MOST_FILES} can be shown",
            access.files.len()
        );
        return Err(wrong(&reason, "offer fewer tools, or shorten their schemas and descriptions"));
    }
    let mut names = BTreeSet::new();
    let file = |(path, content): &(String, Vec<u8>)| {
        let remedy = "hand over files with distinct plain paths, each of them text";
        if !is_plain(path) || !names.insert(path.clone()) {
            return Err(wrong(&format!("`{path}` is no place for a file of theirs"), remedy));
        }
        let content = String::from_utf8(content.clone())
            .map_err(|_| wrong(&format!("`{path}` is not UTF-8 text"), remedy))?;
        Ok(ToolFile { path: path.into(), content })
    };
    access.files.iter().map(file).collect::<Result<_, _>>().map(Some)
}

/// Whether a path is below the tool directory and does not clash with the wall's own files.
fn is_plain(path: &str) -> bool {
    let whole = Path::new(ToolAccess::DIRECTORY).join(path);
    let is_down = |part: Component<'_>| matches!(part, Component::Normal(_));
    !path.is_empty()
        && Path::new(path).components().all(is_down)
        && whole != Path::new(ToolAccess::SOCKET)
        && !whole.starts_with(ToolAccess::COMMANDS)
}

/// Refuses a policy that shows or hides something at the tool directory.
fn place_is_free(policy: &Policy) -> Result<(), StartError> {
    let place = ToolAccess::DIRECTORY;
    if let Some(mount) = policy.mounts.iter().find(|mount| mount.guest.is_at_or_below(place)) {
        let reason = format!("the policy shows something else at {}", mount.guest);
        return Err(wrong(&reason, "choose another guest path, such as `/data`"));
    }
    let hides =
        |path: &str| Path::new(place).starts_with(path) || Path::new(path).starts_with(place);
    if let Some(hidden) = policy.hide.iter().find(|hidden| hides(hidden.value.as_str())) {
        let reason = format!("filesystem.hide names {}", hidden.value);
        return Err(wrong(&reason, "remove it from filesystem.hide, or the tools from the run"));
    }
    Ok(())
}

/// Whether a policy shows and hides nothing at the tool directory.
pub(crate) fn is_place_free(policy: &Policy) -> bool {
    place_is_free(policy).is_ok()
}

fn wrong(reason: &str, remedy: &str) -> StartError {
    StartError::Tools { reason: reason.to_owned(), remedy: remedy.to_owned() }
}

#[cfg(test)]
#[path = "tools_tests.rs"]
mod tests;
