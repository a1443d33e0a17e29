//! The processor architectures whose system calls are known.

use super::syscall;

/// A processor architecture with its Linux system-call numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// 64-bit x86.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

impl Architecture {
    /// All known architectures.
    pub const ALL: [Architecture; 2] = [Architecture::X86_64, Architecture::Aarch64];

    /// The architecture of this build, if it is known.
    pub const fn native() -> Option<Architecture> {
        if cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) {
            Some(Architecture::X86_64)
        } else if cfg!(all(target_arch = "aarch64", target_endian = "little")) {
            Some(Architecture::Aarch64)
        } else {
            None
        }
    }

    /// The kernel's `AUDIT_ARCH_*` value of the calling convention.
    pub const fn audit(self) -> u32 {
        match self {
            Architecture::X86_64 => 0xc000_003e,
            Architecture::Aarch64 => 0xc000_00b7,
        }
    }

    /// The highest known call number.
    pub fn highest(self) -> u32 {
        syscall::highest(self)
    }

    /// The first number of the x32 convention, which has the same `AUDIT_ARCH_*` value as the
    /// native one. See `__X32_SYSCALL_BIT`.
    pub(super) const fn x32_from(self) -> Option<u32> {
        match self {
            Architecture::X86_64 => Some(0x4000_0000),
            Architecture::Aarch64 => None,
        }
    }
}
