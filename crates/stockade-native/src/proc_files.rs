//! The files of `/proc` that describe the machine to a sandbox.
//!
//! Runtimes size heaps and thread pools by these files, so they show the sandbox's limits instead
//! of the host. They are written once, when a sandbox starts, and do not change afterwards. This
//! module only computes text; it mounts nothing.

mod processors;

pub use processors::{cpuinfo, stat};

/// The limits of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The memory limit.
    pub memory_bytes: u64,
    /// The CPU limit, in thousandths of a CPU.
    pub cpus_millis: u64,
}

impl Sizes {
    /// The number of CPUs to show: as many as can be busy at a time, and at least one.
    fn processors(self) -> u64 {
        self.cpus_millis.div_ceil(1000).max(1)
    }
}

/// `/proc/meminfo`: the memory limit, all of it free, and no swap.
pub fn meminfo(sizes: Sizes) -> String {
    // Never zero: ps(1) and others divide by it.
    let total = (sizes.memory_bytes / 1024).max(4);
    let mut text = String::with_capacity(32 * (AMOUNTS.len() + COUNTS.len()));
    for (key, amount) in AMOUNTS {
        let value = match amount {
            Amount::Total => total,
            Amount::Kibibytes(value) => value,
        };
        text.push_str(&format!("{:<15} {value:>8} kB\n", format!("{key}:")));
    }
    for key in COUNTS {
        text.push_str(&format!("{:<15} {:>8}\n", format!("{key}:"), 0));
    }
    text
}

/// `/proc/uptime` with the host's time since boot, which clock_gettime(2) returns anyway, and
/// without its idle time.
pub fn uptime(host: &str) -> String {
    let up = host.split_whitespace().next().filter(|word| word.parse::<f64>().is_ok());
    format!("{} 0.00\n", up.unwrap_or("0.00"))
}

/// `/proc/loadavg`: no load.
pub fn loadavg() -> String {
    "0.00 0.00 0.00 1/1 1\n".to_owned()
}

/// `/proc/sys/kernel/random/boot_id` from random bytes: the host's own id is the same in every
/// sandbox until the next boot, and so reveals which of them share a host.
pub fn boot_id(random: [u8; 16]) -> String {
    // The version and variant bits of a random UUID, RFC 9562 section 5.4.
    let id = u128::from_be_bytes(random) & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62;
    let (hex, mut text) = (format!("{id:032x}"), String::with_capacity(37));
    for (index, digit) in hex.chars().enumerate() {
        if matches!(index, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(digit);
    }
    text.push('\n');
    text
}

enum Amount {
    /// The memory limit.
    Total,
    Kibibytes(u64),
}

/// The lines of meminfo that free(1), Node, JVMs, psutil and .NET read, in the kernel's order.
const AMOUNTS: [(&str, Amount); 31] = [
    ("MemTotal", Amount::Total),
    ("MemFree", Amount::Total),
    ("MemAvailable", Amount::Total),
    ("Buffers", Amount::Kibibytes(0)),
    ("Cached", Amount::Kibibytes(0)),
    ("SwapCached", Amount::Kibibytes(0)),
    ("Active", Amount::Kibibytes(0)),
    ("Inactive", Amount::Kibibytes(0)),
    ("Active(anon)", Amount::Kibibytes(0)),
    ("Inactive(anon)", Amount::Kibibytes(0)),
    ("Active(file)", Amount::Kibibytes(0)),
    ("Inactive(file)", Amount::Kibibytes(0)),
    ("Unevictable", Amount::Kibibytes(0)),
    ("Mlocked", Amount::Kibibytes(0)),
    ("SwapTotal", Amount::Kibibytes(0)),
    ("SwapFree", Amount::Kibibytes(0)),
    ("Dirty", Amount::Kibibytes(0)),
    ("Writeback", Amount::Kibibytes(0)),
    ("AnonPages", Amount::Kibibytes(0)),
    ("Mapped", Amount::Kibibytes(0)),
    ("Shmem", Amount::Kibibytes(0)),
    ("KReclaimable", Amount::Kibibytes(0)),
    ("Slab", Amount::Kibibytes(0)),
    ("SReclaimable", Amount::Kibibytes(0)),
    ("SUnreclaim", Amount::Kibibytes(0)),
    ("KernelStack", Amount::Kibibytes(0)),
    ("PageTables", Amount::Kibibytes(0)),
    ("CommitLimit", Amount::Total),
    ("Committed_AS", Amount::Kibibytes(0)),
    ("AnonHugePages", Amount::Kibibytes(0)),
    ("Hugepagesize", Amount::Kibibytes(2048)),
];

/// The lines without a unit.
const COUNTS: [&str; 4] = ["HugePages_Total", "HugePages_Free", "HugePages_Rsvd", "HugePages_Surp"];

#[cfg(test)]
#[path = "proc_files_tests.rs"]
mod tests;
