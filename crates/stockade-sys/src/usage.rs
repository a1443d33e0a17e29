//! Resource usage of ended children.
#![expect(unsafe_code, reason = "rustix does not wrap getrusage(2)")]
// UNSAFETY: one call of getrusage(2), which fills a structure through a pointer.

use std::io;
use std::time::Duration;

/// What the reaped children used, including their own descendants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChildrenUsage {
    /// CPU time.
    pub cpu_time: Duration,
    /// The largest resident set of one of them, in bytes.
    pub largest_bytes: u64,
}

/// Returns what the reaped children used. See getrusage(2).
pub fn children_usage() -> io::Result<ChildrenUsage> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one `rusage` through the pointer, which is valid and lives in our
    // frame; all-zero bytes are a valid `rusage` already.
    let usage = unsafe {
        if libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        usage.assume_init()
    };
    let time = |value: libc::timeval| {
        Duration::from_secs(value.tv_sec.unsigned_abs())
            + Duration::from_micros(value.tv_usec.unsigned_abs())
    };
    Ok(ChildrenUsage {
        cpu_time: time(usage.ru_utime) + time(usage.ru_stime),
        // `ru_maxrss` is in KiB.
        largest_bytes: usage.ru_maxrss.unsigned_abs().saturating_mul(1024),
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn usage_includes_an_ended_child() {
        let before = children_usage().unwrap();
        assert!(Command::new("true").status().unwrap().success());
        let after = children_usage().unwrap();
        assert!(after.largest_bytes > 0 && after.cpu_time >= before.cpu_time, "{after:?}");
    }
}
