//! Judging paths inside a sandbox.

use crate::control::Control;
use crate::paths::{Access, GuestPath, WORKSPACE};
use crate::places::{DEVICES, SCRATCH, SETTINGS, SYSTEM};
use crate::policy::{Mount, Policy, Workspace, WorkspaceMode};
use crate::source::Basis;
use crate::verdict::{Effect, Verdict};

/// Links of `/proc` whose target depends on the process; a verdict about them would be meaningless.
const MAGIC: [&str; 5] = ["root", "cwd", "fd", "exe", "map_files"];

impl Policy {
    /// Judges reading or writing a path inside.
    pub fn judge_path(&self, path: &GuestPath, access: Access) -> Verdict {
        let depth = |place: &str| if path.is_at_or_below(place) { place.len() } else { 0 };
        let mount = self.mounts.iter().max_by_key(|mount| depth(mount.guest.as_str()));
        let mount = mount.map(|mount| (depth(mount.guest.as_str()), mount));
        let hide = self.hide.iter().max_by_key(|hide| depth(hide.value.as_str()));
        let hide = hide.map(|hide| (depth(hide.value.as_str()), hide));
        let workspace = depth(WORKSPACE);
        // The deepest match decides.
        match (mount, hide) {
            (mount, Some((hidden, hide)))
                if hidden > workspace && mount.is_none_or(|(mounted, _)| hidden > mounted) =>
            {
                let why = format!("filesystem.hide names {}", hide.value);
                let change = format!("remove {} from filesystem.hide", hide.value);
                let basis = hide.basis.clone();
                verdict(path, access, false, Control::HidePaths, basis, (why, change))
            }
            (Some((mounted, mount)), _) if mounted > workspace => judge_mount(path, access, mount),
            _ if workspace > 0 => self.judge_workspace(path, access),
            _ => built_in(path, access),
        }
    }

    fn judge_workspace(&self, path: &GuestPath, access: Access) -> Verdict {
        let (allowed, why, change) = match (&self.workspace.value, access) {
            (Workspace::Scratch, _) => (
                true,
                "the workspace is an empty directory of the sandbox's own".to_owned(),
                "set filesystem.workspace to mode: nothing to deny it",
            ),
            (Workspace::Nothing, _) => (
                false,
                "there is no workspace".to_owned(),
                "set filesystem.workspace in every combined policy",
            ),
            (Workspace::Host { host, mode: WorkspaceMode::Read }, Access::Write) => (
                false,
                format!("the workspace is {}, read-only", host.display()),
                "set filesystem.workspace to mode: overlay (changes stay private) or mode: write",
            ),
            (Workspace::Host { host, mode }, _) => (
                true,
                format!("the workspace is {}, mode {}", host.display(), mode.as_str()),
                "remove filesystem.workspace to hide the host directory",
            ),
        };
        let texts = (why, change.to_owned());
        verdict(path, access, allowed, Control::Workspace, self.workspace.basis.clone(), texts)
    }
}

fn judge_mount(path: &GuestPath, access: Access, mount: &Mount) -> Verdict {
    let (allowed, control) = match (mount.access, access) {
        (Access::Read, Access::Read) => (true, Control::ReadPaths),
        (Access::Read, Access::Write) => (false, Control::ReadPaths),
        (Access::Write, _) => (true, Control::WritePaths),
    };
    let why = format!("{} mounts {} at {}", mount.clause, mount.host.display(), mount.guest);
    let change = if allowed {
        "remove the mount to deny it".to_owned()
    } else {
        format!("name {} in filesystem.write instead of {}", mount.guest, mount.clause)
    };
    verdict(path, access, allowed, control, mount.basis.clone(), (why, change))
}

/// Paths that no clause names: the sandbox's own files, and the rest of the host, which is not
/// visible.
fn built_in(path: &GuestPath, access: Access) -> Verdict {
    let within = |places: &[&str]| places.iter().any(|place| path.is_at_or_below(place));
    let is_magic = path.is_at_or_below("/proc")
        && path.as_str().split('/').skip(3).any(|name| MAGIC.contains(&name));
    let (allowed, rule, why) = if within(&SCRATCH) {
        (true, "scratch space", "it is scratch space of the sandbox's own and ends with it")
    } else if within(&DEVICES) {
        (true, "own /dev", "every sandbox has this device")
    } else if is_magic {
        (false, "own /proc", "links of /proc lead elsewhere; ask about the path they lead to")
    } else if path.is_at_or_below("/proc") && access == Access::Read {
        (true, "own /proc", "every sandbox has its own /proc, which shows only itself")
    } else if (within(&SYSTEM) || within(&SETTINGS)) && access == Access::Read {
        (true, "read-only system", "the interpreter and its libraries are readable")
    } else if within(&SYSTEM) || within(&SETTINGS) || path.is_at_or_below("/proc") {
        (false, "read-only system", "the sandbox's system files are read-only")
    } else {
        (false, "denied by default", "nothing of the host is visible here")
    };
    let change = match (allowed, GuestPath::parse_mount(path.as_str())) {
        (true, _) => "nothing: every sandbox has it".to_owned(),
        (false, Ok(_)) => {
            format!("add {{ host: …, guest: {path} }} to filesystem.{}", access.as_str())
        }
        (false, Err(reason)) => {
            format!("nothing: {reason}; mount what is needed at a path such as /data")
        }
    };
    let basis = Basis::BuiltIn { rule };
    verdict(path, access, allowed, Control::HiddenHost, basis, (why.to_owned(), change))
}

fn verdict(
    path: &GuestPath,
    access: Access,
    allowed: bool,
    control: Control,
    basis: Basis,
    (why, change): (String, String),
) -> Verdict {
    let effect = if allowed { Effect::Allow } else { Effect::Deny };
    let target = format!("{} {path}", access.as_str());
    Verdict { effect, control, target, basis, why, change }
}
