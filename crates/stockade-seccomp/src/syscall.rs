//! System calls by name.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use syscalls::{aarch64, arm, loongarch64, mips64, powerpc64, riscv64, s390x, x86, x86_64};

use super::Architecture;

/// A system call of at least one known architecture.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Syscall {
    name: &'static str,
    x86_64: Option<u16>,
    aarch64: Option<u16>,
}

impl Syscall {
    /// The call with this name.
    pub fn named(name: &str) -> Option<Syscall> {
        TABLE.get(name).copied()
    }

    /// Every known call, by name.
    pub fn all() -> impl Iterator<Item = Syscall> {
        TABLE.values().copied()
    }

    /// The kernel's name of the call.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Its number, if the architecture has it.
    pub fn number(self, architecture: Architecture) -> Option<u32> {
        let number = match architecture {
            Architecture::X86_64 => self.x86_64,
            Architecture::Aarch64 => self.aarch64,
        };
        number.map(u32::from)
    }
}

impl fmt::Debug for Syscall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

/// Whether a name is a call of another architecture, such as `socketcall`.
pub(super) fn is_foreign(name: &str) -> bool {
    x86::Sysno::from_str(name).is_ok()
        || arm::Sysno::from_str(name).is_ok()
        || loongarch64::Sysno::from_str(name).is_ok()
        || mips64::Sysno::from_str(name).is_ok()
        || powerpc64::Sysno::from_str(name).is_ok()
        || riscv64::Sysno::from_str(name).is_ok()
        || s390x::Sysno::from_str(name).is_ok()
}

/// The known name that is closest to a misspelt one.
pub(super) fn closest(name: &str) -> Option<&'static str> {
    let distance = |known: &&&str| strsim::damerau_levenshtein(name, known);
    let nearest = TABLE.keys().min_by_key(distance)?;
    (strsim::damerau_levenshtein(name, nearest) <= 2).then_some(*nearest)
}

pub(super) fn highest(architecture: Architecture) -> u32 {
    let last = match architecture {
        Architecture::X86_64 => x86_64::Sysno::last().id(),
        Architecture::Aarch64 => aarch64::Sysno::last().id(),
    };
    last.unsigned_abs()
}

static TABLE: LazyLock<BTreeMap<&'static str, Syscall>> = LazyLock::new(|| {
    let mut table = BTreeMap::new();
    // By number, because the iterator of the table stops before its last entry.
    for number in 0..=highest(Architecture::X86_64) as u16 {
        if let Some(call) = x86_64::Sysno::new(usize::from(number)) {
            entry(&mut table, call.name()).x86_64 = Some(number);
        }
    }
    for number in 0..=highest(Architecture::Aarch64) as u16 {
        if let Some(call) = aarch64::Sysno::new(usize::from(number)) {
            entry(&mut table, call.name()).aarch64 = Some(number);
        }
    }
    table
});

fn entry<'t>(
    table: &'t mut BTreeMap<&'static str, Syscall>,
    name: &'static str,
) -> &'t mut Syscall {
    table.entry(name).or_insert(Syscall { name, x86_64: None, aarch64: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(name: &str) -> (Option<u32>, Option<u32>) {
        let call = Syscall::named(name).unwrap();
        (call.number(Architecture::X86_64), call.number(Architecture::Aarch64))
    }

    #[test]
    fn numbers_match_the_kernel() {
        for (name, x86_64, aarch64) in [
            ("read", Some(0), Some(63)),
            ("open", Some(2), None),
            ("socket", Some(41), Some(198)),
            ("clone", Some(56), Some(220)),
            ("arch_prctl", Some(158), None),
            ("ioctl", Some(16), Some(29)),
            ("unshare", Some(272), Some(97)),
            ("memfd_create", Some(319), Some(279)),
            ("rseq", Some(334), Some(293)),
            ("kexec_file_load", Some(320), Some(294)),
            ("uretprobe", Some(335), None),
            ("uprobe", Some(336), None),
        ] {
            assert_eq!(numbers(name), (x86_64, aarch64), "{name}");
        }
    }

    #[test]
    fn calls_since_5_1_have_one_number_on_every_architecture() {
        let since = "
            pidfd_send_signal io_uring_setup io_uring_enter io_uring_register
            open_tree move_mount fsopen fsconfig fsmount fspick pidfd_open clone3
            close_range openat2 pidfd_getfd faccessat2 process_madvise epoll_pwait2
            mount_setattr quotactl_fd landlock_create_ruleset landlock_add_rule
            landlock_restrict_self memfd_secret process_mrelease futex_waitv
            set_mempolicy_home_node cachestat fchmodat2 map_shadow_stack futex_wake
            futex_wait futex_requeue statmount listmount lsm_get_self_attr
            lsm_set_self_attr lsm_list_modules mseal setxattrat getxattrat
            listxattrat removexattrat open_tree_attr file_getattr file_setattr
        ";
        for (number, name) in (424..).zip(since.split_whitespace()) {
            assert_eq!(numbers(name), (Some(number), Some(number)), "{name}");
        }
        assert_eq!(Architecture::ALL.map(Architecture::highest), [469, 469]);
    }

    #[test]
    fn no_two_calls_share_a_number() {
        for architecture in Architecture::ALL {
            let mut numbers: Vec<u32> =
                Syscall::all().filter_map(|call| call.number(architecture)).collect();
            let count = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), count);
            assert!(count > 300, "{architecture:?} has only {count}");
        }
    }

    #[test]
    fn misspelt_name_is_distinguished_from_a_call_of_another_architecture() {
        assert_eq!(Syscall::named("mkdri"), None);
        assert_eq!(closest("mkdri"), Some("mkdir"));
        assert_eq!(closest("frobnicate_everything"), None);
        assert!(is_foreign("socketcall") && is_foreign("stat64") && !is_foreign("mkdri"));
    }
}
