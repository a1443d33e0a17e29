//! Checks that a listed program has the same path inside as outside.

use std::path::Path;

use stockade_hostfiles::{Mode, Shown};
use stockade_policy::{SCRATCH, WORKSPACE};

use crate::error::StartError;

/// Directories that the wall creates itself.
const OWN: [&str; 3] = ["/proc", "/dev", "/sys"];

/// Refuses a program whose path inside shows another file, or one that cannot be executed. `root`
/// is the host directory that becomes `/`.
pub(super) fn check(program: &Path, root: &Path, shown: &[Shown]) -> Result<(), StartError> {
    let is_below = |place: &&&str| program.starts_with(place);
    // Outer mounts come first, so the last match is the visible one.
    let Some(over) = shown.iter().rev().find(|shown| program.starts_with(&shown.guest)) else {
        return match SCRATCH.iter().chain(&OWN).chain(&[WORKSPACE]).find(is_below) {
            None => Ok(()),
            Some(place) => Err(wrong(program, format!("the sandbox has its own {place}"))),
        };
    };
    let rest = program.strip_prefix(&over.guest).unwrap_or(program);
    let is_same = match rest.as_os_str().is_empty() {
        true => over.host == host_path(root, program),
        false => over.host.join(rest) == host_path(root, program),
    };
    if !is_same {
        let reason = format!("the policy shows something else at {}", over.guest.display());
        return Err(wrong(program, reason));
    }
    match over.mode {
        Mode::Read => Ok(()),
        Mode::Write | Mode::Overlay => {
            let place = over.guest.display();
            let reason =
                format!("{place} can be changed inside, and nothing there can be started then");
            Err(wrong(program, reason))
        }
    }
}

fn host_path(root: &Path, inside: &Path) -> std::path::PathBuf {
    root.join(inside.strip_prefix("/").unwrap_or(inside))
}

fn wrong(program: &Path, reason: String) -> StartError {
    StartError::HostPath {
        path: program.to_owned(),
        reason: format!("{reason}, so command_allowlist cannot let it be started"),
        remedy: "list a program elsewhere, or show its directory with filesystem.read".to_owned(),
    }
}
