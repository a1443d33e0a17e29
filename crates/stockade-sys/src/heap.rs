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

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    /// Whether glibc took a block from mmap(2) for itself alone, and so gives it back when it is
    /// freed: the second lowest bit of the size before it, malloc/malloc.c of glibc.
    fn is_mapped_alone(block: &[u8]) -> bool {
        let size = block.as_ptr().cast::<usize>().wrapping_sub(1);
        // SAFETY: every block of glibc's allocator has its size right before it, in memory that is
        // readable as long as the block is allocated, which the borrow holds.
        unsafe { size.read_unaligned() & 2 != 0 }
    }

    #[test]
    fn blocks_below_the_size_are_kept_and_larger_ones_are_given_back() {
        // 300 KiB is above what the allocator keeps by itself at first, mallopt(3).
        let before = vec![7_u8; 300 << 10];
        assert!(is_mapped_alone(&before), "without the setting it is given back");
        keep_freed_memory(1 << 20);
        assert!(!is_mapped_alone(&vec![7_u8; 300 << 10]));
        assert!(is_mapped_alone(&vec![7_u8; 2 << 20]));
    }
}
