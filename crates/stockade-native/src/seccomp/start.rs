//! What a program needs before its own first line.

use super::{Action, Profile, Rule, Syscall};

/// The calls between the filter and `main` that a start cannot do without: those of execve(2) and
/// of the dynamic loader and C library, static or not, glibc or musl, and the end.
///
/// The test with a real kernel starts programs under a profile that allows these alone.
const NEEDED: &str = "
    execve exit_group
    brk mmap munmap mprotect
    arch_prctl set_tid_address set_robust_list rseq futex
    openat read pread64 close fstat newfstatat write
    prlimit64 getrandom
    rt_sigaction rt_sigprocmask rt_sigreturn
";

/// The first call that every start needs and the profile refuses whatever its arguments.
///
/// Nothing is guessed about arguments: a rule that allows the call for some of them is believed.
pub fn forbids_start(profile: &Profile) -> Option<Syscall> {
    needed_to_start().find(|syscall| match profile.rules.get(syscall) {
        None => !profile.default.allows(),
        Some(rules) => !can_be_allowed(rules, profile.default),
    })
}

/// The calls every start needs.
pub fn needed_to_start() -> impl Iterator<Item = Syscall> {
    NEEDED.split_whitespace().filter_map(Syscall::named)
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
