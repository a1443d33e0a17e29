//! Comparing the visible files of two policies.

use std::path::PathBuf;

use crate::paths::{Access, GuestPath, WORKSPACE};
use crate::places::{SCRATCH, SETTINGS, SYSTEM};
use crate::policy::{Policy, Workspace, WorkspaceMode};

use super::{Widening, add};

/// What a path inside contains.
#[derive(PartialEq, Eq)]
enum Content {
    /// A file of the sandbox itself.
    Own,
    /// A host file or directory; `changes` is whether writing reaches the host.
    Host { path: PathBuf, changes: bool },
}

/// A decision about a path depends only on the deepest named place at or above it, whether a policy
/// or every sandbox names it. So checking all such places finds every difference.
pub(super) fn compare(base: &Policy, new: &Policy, found: &mut Vec<Widening>) {
    for place in places(base).into_iter().chain(places(new)) {
        for access in [Access::Read, Access::Write] {
            let allowed = new.judge_path(&place, access);
            if !allowed.allows() {
                continue;
            }
            let before = base.judge_path(&place, access).allows();
            let (old, now) = (content(base, &place), content(new, &place));
            let reach = match &now {
                Content::Own => String::new(),
                Content::Host { path, changes } if *changes || access == Access::Read => {
                    format!(" (the host's {})", path.display())
                }
                Content::Host { path, .. } => {
                    format!(" (in a private layer over the host's {})", path.display())
                }
            };
            let same = match (&old, &now) {
                (_, Content::Own) => true,
                (Content::Own, Content::Host { .. }) => false,
                (Content::Host { path: a, changes: x }, Content::Host { path: b, changes: y }) => {
                    a == b && (access == Access::Read || *x || !*y)
                }
            };
            if !before || !same {
                let verb = access.as_str();
                add(found, allowed.control, format!("{verb} below {place}{reach}"));
            }
        }
    }
}

fn places(policy: &Policy) -> Vec<GuestPath> {
    let workspace = GuestPath::parse(WORKSPACE).into_iter();
    let mounts = policy.mounts.iter().map(|mount| mount.guest.clone());
    let hidden = policy.hide.iter().map(|hide| hide.value.clone());
    let built_in = SCRATCH.iter().chain(&SYSTEM).chain(&SETTINGS);
    let built_in = built_in.filter_map(|place| GuestPath::parse(place).ok());
    workspace.chain(mounts).chain(hidden).chain(built_in).collect()
}

fn content(policy: &Policy, place: &GuestPath) -> Content {
    let at = policy.mounts.iter().filter(|mount| place.below(&mount.guest).is_some());
    let deepest = at.max_by_key(|mount| mount.guest.as_str().len());
    if let Some(mount) = deepest {
        let rest = place.below(&mount.guest).unwrap_or("");
        return host(&mount.host, rest, mount.access == Access::Write);
    }
    match (&policy.workspace.value, GuestPath::parse(WORKSPACE)) {
        (Workspace::Host { host: directory, mode }, Ok(root)) => match place.below(&root) {
            Some(rest) => host(directory, rest, *mode == WorkspaceMode::Write),
            None => Content::Own,
        },
        _ => Content::Own,
    }
}

fn host(directory: &std::path::Path, rest: &str, changes: bool) -> Content {
    let path = if rest.is_empty() { directory.to_path_buf() } else { directory.join(rest) };
    Content::Host { path, changes }
}
