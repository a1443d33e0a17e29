//! How the allocator of the C library deals with memory that is freed.
#![expect(unsafe_code, reason = "the allocator is set by mallopt(3)")]
// UNSAFETY: mallopt(3) takes two integers and changes settings of the allocator alone.

use std::ffi::c_int;

/// Keeps up to so many freed bytes for what is allocated next, instead of giving them back to the
/// kernel and taking them anew page by page. See mallopt(3).
///
/// An allocator that has no such setting stays as it is.
pub fn keep_freed_memory(bytes: usize) {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    #[cfg(target_env = "gnu")]
    // SAFETY: both settings are numbers of bytes, and take effect for later calls of the allocator
    // only; the process has one thread when they are made, or the allocator locks itself.
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
    fn memory_can_still_be_had_and_freed() {
        keep_freed_memory(1 << 20);
        for _ in 0..100 {
            assert_eq!(vec![7_u8; 300 << 10].iter().filter(|byte| **byte == 7).count(), 300 << 10);
        }
    }
}
