//! The built-in profile of every sandbox: calls that are not listed return `EPERM`.

mod allowed;
mod conditional;

use super::profile::ENOSYS;
use super::{Action, Profile, Rule, Syscall};

const EPERM: Action = Action::Errno(1);

/// Whether a program may create an executable memory file (memfd).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExecutableMemfd {
    /// Allowed, as on any Linux.
    #[default]
    Allowed,
    /// Allowed only with `MFD_NOEXEC_SEAL`: for a sandbox whose policy lists the commands it may
    /// start.
    Refused,
}

/// Whether a program may trace another process of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tracing {
    /// ptrace(2) is refused.
    #[default]
    Refused,
    /// ptrace(2) works, for gdb and strace.
    Allowed,
}

/// The options of the built-in profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Executable memory files.
    pub executable_memfd: ExecutableMemfd,
    /// Debuggers.
    pub tracing: Tracing,
}

/// Calls that return ENOSYS, because programs then fall back, while they would give up on `EPERM`.
///
/// - `clone3` passes its flags by pointer; every C library falls back to `clone`.
/// - `openat2` passes the mode of a new file by pointer; programs fall back to `openat`.
/// - io_uring opens files and sockets without passing this filter.
/// - Linux AIO (`io_setup`) has one limit for the whole host, which one sandbox could use up.
/// - Keyrings outlive a sandbox and are in no namespace.
/// - The new mount API, and reading mounts by id, are newer than the programs that use them.
const UNKNOWN_HERE: &str = "
    clone3 openat2
    io_uring_setup io_uring_enter io_uring_register
    io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents
    add_key keyctl request_key
    fsopen fsconfig fsmount fspick move_mount open_tree open_tree_attr statmount listmount
";

/// The built-in profile.
pub fn built_in(options: Options) -> Profile {
    let always = |names: &'static str, action| {
        calls(names).map(move |syscall| (syscall, vec![Rule::always(action)]))
    };
    let mut profile = Profile { default: EPERM, rules: Default::default() };
    for group in allowed::GROUPS {
        profile.rules.extend(always(group, Action::Allow));
    }
    profile.rules.extend(always(UNKNOWN_HERE, Action::Errno(ENOSYS)));
    if options.tracing == Tracing::Allowed {
        profile.rules.extend(always("ptrace", Action::Allow));
    }
    for (name, rules) in conditional::rules(options.executable_memfd) {
        profile.rules.extend(Syscall::named(name).map(|syscall| (syscall, rules)));
    }
    profile
}

/// The calls of a list. A name in no table allows nothing; a test detects it.
fn calls(names: &'static str) -> impl Iterator<Item = Syscall> {
    names.split_whitespace().filter_map(Syscall::named)
}

#[cfg(test)]
#[path = "built_in_tests.rs"]
mod tests;
