//! The profile every sandbox of this wall has: what is not listed is `EPERM`.

mod allowed;
mod conditional;

use super::profile::ENOSYS;
use super::{Action, Profile, Rule, Syscall};

const EPERM: Action = Action::Errno(1);

/// Whether a program may make memory it can execute as a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExecutableMemfd {
    /// As on any Linux.
    #[default]
    Allowed,
    /// Only sealed against execution: for a sandbox whose policy lists the commands it may start.
    Refused,
}

/// Whether a program may trace another of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tracing {
    /// ptrace(2) is refused.
    #[default]
    Refused,
    /// ptrace(2) works, for gdb and strace.
    Allowed,
}

/// What a sandbox may ask of its profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Files of memory that can be executed.
    pub executable_memfd: ExecutableMemfd,
    /// Debuggers.
    pub tracing: Tracing,
}

/// Calls that answer as on a kernel without them, because programs then fall back and would give
/// up on `EPERM`.
///
/// - `clone3` hides its flags behind a pointer; every C library falls back to `clone`.
/// - `openat2` hides the mode of a new file behind a pointer; programs fall back to `openat`.
/// - io_uring opens files and sockets past this filter.
/// - Asynchronous I/O of the older kind has one limit for the whole host, which one sandbox could use
///   up.
/// - Keyrings outlive a sandbox and are not in any namespace.
/// - Mounting in small steps, and reading mounts by number, is newer than the programs that use it.
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

/// The calls of a list. A name no table has allows nothing; a test finds it.
fn calls(names: &'static str) -> impl Iterator<Item = Syscall> {
    names.split_whitespace().filter_map(Syscall::named)
}

#[cfg(test)]
#[path = "built_in_tests.rs"]
mod tests;
