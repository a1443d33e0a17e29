//! What the host and the guest exchange before the link, when the guest is the first process of a
//! virtual machine.
//!
//! ```text
//! guest ── MachineReady ──▶ host ── MachineStart, the files of tools, the copies ──▶ guest ── link
//!            └── here a machine can be saved: nothing of a policy is in it yet
//! ```

use serde::{Deserialize, Serialize};

/// Where the initramfs has the kernel's modules, and the file with their names in the order of
/// loading.
pub const MACHINE_MODULES: &str = "/modules";
/// The word of the guest's command line for a machine whose root is a disk of the caller.
pub const MACHINE_DISK: &str = "disk";
/// The name of the virtio-serial port that is the stream to the host.
pub const MACHINE_PORT: &str = "stockade";

/// The cgroup of programs inside; the host reads its counts.
pub const MACHINE_CGROUP: &str = "/sys/fs/cgroup/sandbox";

/// The guest's first frame: the machine has booted, and nothing in it depends on a policy yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineReady {}

impl MachineReady {
    /// The maximum length of the frame.
    pub const MAX_BYTES: usize = 64;
}

/// The host's only frame before the link. The contents of all files of tools follow it, and then
/// the archives of all copies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineStart {
    /// What the guest arranges.
    pub plan: MachinePlan,
    /// The time of day, in nanoseconds since 1970: a machine that continues has the time at which
    /// it was saved.
    pub time_ns: u64,
    /// Random bytes for the kernel: machines that continue from one saved machine start with the
    /// same state of its generator.
    pub entropy: Vec<u8>,
    /// The files of the directory for tools: paths below it, and lengths.
    pub tools: Vec<(String, u64)>,
}

/// What the first process of a virtual machine arranges before it serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachinePlan {
    /// What the guest arranges itself, in the words of its command line.
    pub own: Vec<String>,
    /// The ids of the guest and of programs.
    pub user: u32,
    /// Their group.
    pub group: u32,
    /// Small files of the root, by absolute path: those that an installer would write.
    pub files: Vec<(String, String)>,
    /// Empty places, each a file system of its own, in the order of mounting.
    pub places: Vec<MachinePlace>,
    /// Copies of host files, in the order of their archives.
    pub copies: Vec<MachineCopy>,
    /// Paths where nothing is visible, mounted last.
    pub hidden: Vec<String>,
    /// The directory for tools, and the link in it that leads to the guest's socket.
    pub tools: MachineTools,
    /// The limits of the cgroup of the guest and of programs.
    pub limits: MachineLimits,
}

/// An empty file system in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachinePlace {
    /// The directory.
    pub path: String,
    /// The size.
    pub bytes: u64,
    /// The number of files and directories.
    pub inodes: u64,
    /// The permission bits of the directory.
    pub mode: u32,
    /// Whether it belongs to the user of programs; otherwise to root.
    pub is_users: bool,
    /// Whether nothing can be written in it.
    pub is_read_only: bool,
}

/// A copy of a host file or directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineCopy {
    /// Its path.
    pub path: String,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// What takes the changes of programs; without it the copy is read-only. Only a directory has
    /// one.
    pub layer: Option<MachineLayer>,
    /// The length of its archive.
    pub archive_bytes: u64,
    /// The size of the file system that holds it.
    pub bytes: u64,
    /// The most entries of its archive.
    pub entries: u64,
}

/// The upper layer of an overlay over a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineLayer {
    /// The size.
    pub bytes: u64,
    /// The number of files and directories.
    pub inodes: u64,
}

/// The directory for tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineTools {
    /// Its path.
    pub directory: String,
    /// Links in it, by path below it, with their targets.
    pub links: Vec<(String, String)>,
}

/// The limits of everything that programs use together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineLimits {
    /// Memory.
    pub memory_bytes: u64,
    /// Thousandths of a processor.
    pub cpu_millis: u64,
    /// Processes and threads, with the guest.
    pub tasks: u64,
    /// Open descriptors of the guest.
    pub open_files: u64,
}
