//! What `/proc` tells a sandbox about the machine it runs on.
//!
//! Runtimes size their heaps and their pools of threads by these files, so they speak of the
//! sandbox's limits instead of the host. They are written once, when a sandbox starts, and do not
//! move afterwards. Everything here is a decision over plain values; nothing is mounted.

mod places;
mod processors;

pub use places::{MASKED, READ_ONLY};
pub use processors::{cpuinfo, stat};

/// What a sandbox may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The most memory.
    pub memory_bytes: u64,
    /// The most processor time, in thousandths of one processor.
    pub cpus_millis: u64,
}

impl Sizes {
    /// How many processors are shown: as many as could be busy at a time, and at least one.
    fn processors(self) -> u64 {
        self.cpus_millis.div_ceil(1000).max(1)
    }
}

/// `/proc/meminfo`: all memory of the limit, free, and no swap.
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

/// `/proc/uptime` from the host's: the same time since the boot, which clock_gettime(2) tells anyway,
/// and nothing about how idle the host was.
pub fn uptime(host: &str) -> String {
    let up = host.split_whitespace().next().filter(|word| word.parse::<f64>().is_ok());
    format!("{} 0.00\n", up.unwrap_or("0.00"))
}

/// `/proc/loadavg`: no load.
pub fn loadavg() -> String {
    "0.00 0.00 0.00 1/1 1\n".to_owned()
}

/// `/proc/sys/kernel/random/boot_id` from random bytes: the host's own is the same in every sandbox
/// until the next boot, and so tells which of them share a host.
pub fn boot_id(random: [u8; 16]) -> String {
    // The marks of a random UUID, RFC 9562 section 5.4.
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

/// The lines of meminfo in the kernel's order, as far as free(1), Node, JVMs, psutil and .NET read
/// them.
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
