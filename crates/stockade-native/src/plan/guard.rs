//! Landlock's rules: the second layer over the files.

use std::path::PathBuf;

use stockade_launcher::{LandlockRule, Step};

use super::files::Visible;
use super::{Inputs, commands};

/// One rule per place: everything may be read, writable places written, and executed what the
/// policy lets be started.
pub(super) fn landlock(inputs: &Inputs<'_>, visible: &Visible) -> Option<Step> {
    if inputs.machine.landlock == 0 {
        return None;
    }
    let any = inputs.policy.commands.is_none();
    let mut rules = vec![
        LandlockRule { path: PathBuf::from("/"), writable: false, executable: any },
        LandlockRule { path: PathBuf::from("/dev"), writable: true, executable: false },
        LandlockRule { path: PathBuf::from("/proc"), writable: true, executable: false },
    ];
    for path in visible.writable() {
        rules.push(LandlockRule { path, writable: true, executable: any });
    }
    for path in commands::executables(inputs) {
        rules.push(LandlockRule { path, writable: false, executable: true });
    }
    Some(Step::Landlock { version: inputs.machine.landlock, rules })
}
