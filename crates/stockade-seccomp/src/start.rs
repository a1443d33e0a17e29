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

/// The calls of the guest under the same filters: it starts programs, waits for them, carries what
/// they read and write, and ends what they leave.
const OF_GUEST: &str = "
    signalfd4 pipe2 fcntl sendmsg close_range prctl umask chdir
    clone setsid wait4 waitid kill getpid
";

/// And those by which it waits: for little, or for everybody who connects to it.
const FOR_LITTLE: &str = "ppoll";
const OF_DOORS: &str = "epoll_create1 epoll_ctl epoll_pwait accept4 shutdown";

/// And those by which connections leave.
const OF_WAY_OUT: &str = "recvmsg recvfrom sendto getsockopt setsockopt";

/// What a guest carries beside input and output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carries {
    /// Connections to the network.
    pub network: bool,
    /// Calls of tools.
    pub tools: bool,
}

/// The first call that every start needs and the profile refuses whatever its arguments.
///
/// Nothing is guessed about arguments: a rule that allows the call for some of them is believed.
pub fn forbids_start(profile: &Profile) -> Option<Syscall> {
    needed_to_start().find(|syscall| is_forbidden(profile, *syscall))
}

/// The same for the calls of the guest.
pub fn forbids_guest(profile: &Profile, carries: Carries) -> Option<Syscall> {
    needed_by_guest(carries).find(|syscall| is_forbidden(profile, *syscall))
}

/// The calls that the guest needs.
pub fn needed_by_guest(carries: Carries) -> impl Iterator<Item = Syscall> {
    let waits = if carries.network || carries.tools { OF_DOORS } else { FOR_LITTLE };
    let way_out = if carries.network { OF_WAY_OUT } else { "" };
    let all = [OF_GUEST, waits, way_out].into_iter();
    all.flat_map(str::split_whitespace).filter_map(Syscall::named)
}

fn is_forbidden(profile: &Profile, syscall: Syscall) -> bool {
    match profile.rules.get(&syscall) {
        None => !profile.default.allows(),
        Some(rules) => !can_be_allowed(rules, profile.default),
    }
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
