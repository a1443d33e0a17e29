//! Which version of Landlock the kernel has.
#![expect(unsafe_code, reason = "neither rustix nor the landlock crate tells the version")]
// UNSAFETY: one call of landlock_create_ruleset(2) that makes nothing and reads nothing.

use std::io;

/// The version of Landlock's interface.
///
/// `ENOSYS` says that the kernel has none, `EOPNOTSUPP` that it is switched off; anything else
/// comes from a system-call filter.
pub fn landlock_version() -> io::Result<u32> {
    const VERSION: u32 = 1;
    // SAFETY: with LANDLOCK_CREATE_RULESET_VERSION the attribute must be a null pointer of size
    // zero, and the kernel answers a number, landlock_create_ruleset(2).
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
