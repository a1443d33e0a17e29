//! The Landlock rules: a second layer of file access control.

use std::path::{Path, PathBuf};

use stockade_launcher::{LandlockRule, SocketUse, Step};
use stockade_provider::ToolAccess;

use crate::machine::LANDLOCK_HOLDS_SOCKETS;

use super::files::Visible;
use super::{Inputs, commands, tools};

/// One rule per place: everything is readable, writable places are writable, and only what the
/// policy allows is executable. Sockets can be created only where no other sandbox and no host
/// process sees them.
pub(super) fn landlock(inputs: &Inputs<'_>, visible: &Visible) -> Option<Step> {
    if inputs.machine.landlock == 0 {
        return None;
    }
    let any = inputs.policy.commands.is_none();
    let shared = visible.writable_on_host();
    let rule = |path: PathBuf, writable, executable| LandlockRule {
        sockets: sockets(&path, writable, &shared),
        path,
        writable,
        executable,
    };
    let mut rules = vec![
        rule(PathBuf::from("/"), false, any),
        rule(PathBuf::from("/dev"), true, false),
        rule(PathBuf::from("/proc"), true, false),
    ];
    rules.extend(visible.writable().into_iter().map(|path| rule(path, true, any)));
    rules.extend(commands::executables(inputs).into_iter().map(|path| rule(path, false, true)));
    // The launcher binds these sockets before Landlock applies, so Landlock does not count them as
    // the sandbox's own.
    let is_refused = inputs.machine.landlock >= LANDLOCK_HOLDS_SOCKETS;
    rules.extend((is_refused && tools::is_there(inputs)).then(|| LandlockRule {
        sockets: SocketUse::Reached,
        ..rule(PathBuf::from(ToolAccess::DIRECTORY), false, false)
    }));
    Some(Step::Landlock { version: inputs.machine.landlock, rules })
}

/// Landlock adds up the rights of all parent directories: the right to create sockets above a
/// shared directory would also apply in it.
fn sockets(path: &Path, writable: bool, shared: &[&Path]) -> SocketUse {
    let is_shared = shared.iter().any(|it| it.starts_with(path) || path.starts_with(it));
    match writable && !is_shared {
        true => SocketUse::Made,
        false => SocketUse::Refused,
    }
}
