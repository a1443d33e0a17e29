//! The calls that a program needs before its `main`.

use super::{Action, Architecture, Profile, Rule, Syscall};

/// The calls without which no dynamically linked program reaches its `main`, with glibc or musl:
/// execve(2) itself and what the loader needs for its libraries. Programs start even if other calls
/// fail.
const NEEDED: &str = "execve mmap mprotect arch_prctl openat read close";

/// The first call that a start needs and the profile refuses with any arguments.
///
/// A call that a rule allows for some arguments counts as allowed.
pub fn forbids_start(profile: &Profile, architecture: Architecture) -> Option<Syscall> {
    needed_to_start(architecture).find(|syscall| is_forbidden(profile, *syscall))
}

/// Whether the profile refuses a call with any arguments.
pub fn is_forbidden(profile: &Profile, syscall: Syscall) -> bool {
    match profile.rules.get(&syscall) {
        None => !profile.default.allows(),
        Some(rules) => !can_be_allowed(rules, profile.default),
    }
}

/// The calls that every start needs.
pub fn needed_to_start(architecture: Architecture) -> impl Iterator<Item = Syscall> {
    let calls = NEEDED.split_whitespace().filter_map(Syscall::named);
    calls.filter(move |syscall| syscall.number(architecture).is_some())
}

fn can_be_allowed(rules: &[Rule], default: Action) -> bool {
    for rule in rules {
        if rule.action.allows() {
            return true;
        }
        if rule.conditions.is_empty() {
            return false;
        }
    }
    default.allows()
}
