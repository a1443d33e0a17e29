//! The keywords of the format.

use super::super::{Action, Architecture, Comparison};

/// The error number of `SCMP_ACT_ERRNO` and the value of `SCMP_ACT_TRAP` if the profile has none.
pub(super) const DEFAULT_ERRNO: u16 = 1;

/// The supported actions.
pub(super) const ACTIONS: [&str; 7] = [
    "SCMP_ACT_ALLOW",
    "SCMP_ACT_ERRNO",
    "SCMP_ACT_KILL",
    "SCMP_ACT_KILL_PROCESS",
    "SCMP_ACT_KILL_THREAD",
    "SCMP_ACT_LOG",
    "SCMP_ACT_TRAP",
];

/// Actions that need a supervising process, which does not exist here.
pub(super) const SUPERVISED: [&str; 2] = ["SCMP_ACT_TRACE", "SCMP_ACT_NOTIFY"];

/// The flag of seccomp(2) that applies the filter to every thread.
pub(super) const EVERY_THREAD: &str = "SECCOMP_FILTER_FLAG_TSYNC";

/// Comparisons.
pub(super) const OPERATORS: [&str; 7] = [
    "SCMP_CMP_EQ",
    "SCMP_CMP_NE",
    "SCMP_CMP_GE",
    "SCMP_CMP_GT",
    "SCMP_CMP_LE",
    "SCMP_CMP_LT",
    "SCMP_CMP_MASKED_EQ",
];

/// Names of error numbers that profiles, such as Podman's, use in addition to the number.
const ERRNOS: [(&str, u16); 14] = [
    ("EPERM", 1),
    ("ENOENT", 2),
    ("ESRCH", 3),
    ("EIO", 5),
    ("EAGAIN", 11),
    ("ENOMEM", 12),
    ("EACCES", 13),
    ("EFAULT", 14),
    ("EBUSY", 16),
    ("EINVAL", 22),
    ("ENOSYS", 38),
    ("EPROTONOSUPPORT", 93),
    ("EOPNOTSUPP", 95),
    ("EAFNOSUPPORT", 97),
];

/// Architectures in `architectures` and `archMap`, without the prefix `SCMP_ARCH_`.
const MACHINES: &str = "
    NATIVE X86 X86_64 X32 ARM AARCH64 LOONGARCH64 M68K MIPS MIPS64 MIPS64N32 MIPSEL MIPSEL64
    MIPSEL64N32 PARISC PARISC64 PPC PPC64 PPC64LE RISCV64 S390 S390X SH SHEB
";

/// Architectures in `includes` and `excludes`.
const CONTAINER_MACHINES: &str = "
    386 amd64 arm arm64 loong64 loongarch64 mips mips64 mips64n32 mipsel mipsel64 mipsel64n32
    ppc ppc64 ppc64le riscv64 s390 s390x x32 x86
";

/// An action with its error number or value.
pub(super) fn action(word: &str, value: u16) -> Option<Action> {
    Some(match word {
        "SCMP_ACT_ALLOW" => Action::Allow,
        "SCMP_ACT_ERRNO" => Action::Errno(value),
        "SCMP_ACT_KILL" | "SCMP_ACT_KILL_THREAD" => Action::KillThread,
        "SCMP_ACT_KILL_PROCESS" => Action::KillProcess,
        "SCMP_ACT_LOG" => Action::Log,
        "SCMP_ACT_TRAP" => Action::Trap(value),
        _ => return None,
    })
}

/// A comparison with its values; for `MASKED_EQ` the mask comes first.
pub(super) fn comparison(word: &str, value: u64, second: u64) -> Option<Comparison> {
    Some(match word {
        "SCMP_CMP_EQ" => Comparison::Equal(value),
        "SCMP_CMP_NE" => Comparison::NotEqual(value),
        "SCMP_CMP_GE" => Comparison::AtLeast(value),
        "SCMP_CMP_GT" => Comparison::Greater(value),
        "SCMP_CMP_LE" => Comparison::AtMost(value),
        "SCMP_CMP_LT" => Comparison::Less(value),
        "SCMP_CMP_MASKED_EQ" => Comparison::MaskedEqual { mask: value, value: second },
        _ => return None,
    })
}

/// The number of a named error.
pub(super) fn errno(name: &str) -> Option<u16> {
    ERRNOS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// Whether a word is valid in `architectures`.
pub(super) fn is_architecture(word: &str) -> bool {
    let machine = word.strip_prefix("SCMP_ARCH_");
    machine.is_some_and(|machine| MACHINES.split_whitespace().any(|known| known == machine))
}

/// Whether a word is valid in `includes` and `excludes`.
pub(super) fn is_container_architecture(word: &str) -> bool {
    CONTAINER_MACHINES.split_whitespace().any(|known| known == word)
}

/// An architecture in `architectures` and `archMap`.
pub(super) fn architecture(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::X86_64 => "SCMP_ARCH_X86_64",
        Architecture::Aarch64 => "SCMP_ARCH_AARCH64",
    }
}

/// An architecture in `includes` and `excludes`.
pub(super) fn container_architecture(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::X86_64 => "amd64",
        Architecture::Aarch64 => "arm64",
    }
}
