//! How the C library's allocator treats freed memory.
#![expect(unsafe_code, reason = "the allocator is set by mallopt(3)")]
// UNSAFETY: mallopt(3) takes two integers and changes only the allocator's settings.

use std::ffi::c_int;

/// Makes the allocator keep up to `bytes` of freed memory for later allocations, instead of
/// returning it to the kernel and faulting it in again page by page. See mallopt(3).
///
/// Does nothing if the allocator has no such setting.
pub fn keep_freed_memory(bytes: usize) {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    #[cfg(target_env = "gnu")]
    // SAFETY: both settings are byte counts and affect only later allocations; either the process
    // has a single thread, or the allocator takes its own lock.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, bytes);
        libc::mallopt(libc::M_MMAP_THRESHOLD, bytes);
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = bytes;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocation_still_works_afterwards() {
        keep_freed_memory(1 << 20);
        for _ in 0..100 {
            assert_eq!(vec![7_u8; 300 << 10].iter().filter(|byte| **byte == 7).count(), 300 << 10);
        }
    }
}
