//! The paths of `/proc` that are hidden from a sandbox or read-only in it.
//!
//! A process inside has no capability and is not the host's root. So this omits what file
//! permissions already protect: `kcore`, `kmsg`, `timer_list`, `slabinfo`, `sysrq-trigger` and
//! writing below `bus`, `fs` and `irq`. It also omits what shows only the kernel version or the
//! load of the whole machine: `version`, `config.gz`, `vmstat`, `pressure`.

/// Masked paths: a file by `/dev/null`, a directory by an empty one. Paths that a host does not
/// have are skipped.
pub const MASKED_PROC: [&str; 13] = [
    // Names the root disk, and contains any secret that a provisioning tool passed to the kernel.
    "/proc/cmdline",
    // Without root the sandbox has the caller's uid on the host and sees the names of the caller's
    // keys.
    "/proc/keys",
    // Kernel addresses, if `kernel.perf_event_paranoid` is 1 or less.
    "/proc/kallsyms",
    // The same addresses, and the machine's drivers.
    "/proc/modules",
    // Counts each key press and network packet of the host.
    "/proc/interrupts",
    // The file `spurious` of each interrupt contains such a count too.
    "/proc/irq",
    // Serial numbers and radio addresses of input devices, physical addresses of PCI devices.
    "/proc/bus",
    // Servers, shares and users of CIFS, and the names of the host's disks.
    "/proc/fs",
    // Unique ids of graphics cards.
    "/proc/driver",
    // I/O counts of every disk of the host.
    "/proc/diskstats",
    // The exact disk sizes identify the host.
    "/proc/partitions",
    // Vendors and models of disks.
    "/proc/scsi",
    // Names of sound cards, and whether they are playing or recording.
    "/proc/asound",
];

/// Read-only paths. A process that created a namespace may change its sysctls without a capability:
/// a sandbox could raise `fs/mqueue/msg_max` or `kernel/shmmax` and set `kernel/ns_last_pid`.
pub const READ_ONLY_PROC: [&str; 1] = ["/proc/sys"];
