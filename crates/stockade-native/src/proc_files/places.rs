//! What of a whole `/proc` a sandbox does not see, and what it may not write.
//!
//! A process inside has no capability and no uid of the host's root. So nothing is listed here that
//! file permissions close already: `kcore`, `kmsg`, `timer_list`, `slabinfo`, `sysrq-trigger` and
//! writing below `bus`, `fs` and `irq`. Nor what only tells the kind of kernel or how busy the
//! machine is as a whole: `version`, `config.gz`, `vmstat`, `pressure`.

/// What is covered: a file by `/dev/null`, a directory by an empty one. What a host does not have
/// needs no cover.
pub const MASKED: [&str; 13] = [
    // Names the root disk, and carries whatever a provisioning tool passed to the kernel.
    "/proc/cmdline",
    // Rootless, the sandbox has the caller's uid on the host and sees the names of the caller's keys.
    "/proc/keys",
    // The kernel's addresses, wherever `kernel.perf_event_paranoid` is 1 or less.
    "/proc/kallsyms",
    // The same addresses, and which drivers the machine needs.
    "/proc/modules",
    // Counts each key press and packet of the host.
    "/proc/interrupts",
    // Each interrupt's `spurious` holds such a count too.
    "/proc/irq",
    // Serial numbers and radio addresses of input devices, physical addresses of PCI devices.
    "/proc/bus",
    // The servers, shares and users of CIFS, and the host's disks by name.
    "/proc/fs",
    // The unique identity of graphics cards.
    "/proc/driver",
    // Reads and writes of every disk of the host.
    "/proc/diskstats",
    // The exact sizes of the host's disks tell it from others.
    "/proc/partitions",
    // The makers and models of disks.
    "/proc/scsi",
    // The sound cards by name, and whether they are playing or recording.
    "/proc/asound",
];

/// What is made read-only. Settings of a namespace belong to who made it: without this a sandbox
/// raises its own `fs/mqueue/msg_max` or `kernel/shmmax` and sets `kernel/ns_last_pid`, though it
/// has no capability.
pub const READ_ONLY: [&str; 1] = ["/proc/sys"];
