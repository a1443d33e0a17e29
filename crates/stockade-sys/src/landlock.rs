//! The kernel's version of Landlock.
#![expect(unsafe_code, reason = "neither rustix nor the landlock crate returns the version")]
// UNSAFETY: one call of landlock_create_ruleset(2) that creates nothing and reads no memory.

use std::io;

/// The version of the kernel's Landlock ABI.
///
/// `ENOSYS` means that the kernel lacks Landlock, `EOPNOTSUPP` that it is disabled; any other error
/// comes from a seccomp filter.
pub fn landlock_version() -> io::Result<u32> {
    const VERSION: u32 = 1;
    // SAFETY: with LANDLOCK_CREATE_RULESET_VERSION the attribute must be a null pointer of size
    // zero, and the kernel returns a number, landlock_create_ruleset(2).
    let answer = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0_usize,
            VERSION,
        )
    };
    u32::try_from(answer).map_err(|_| io::Error::last_os_error())
}
