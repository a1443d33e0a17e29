//! The abilities of a cgroup that sandboxes use.

use std::fmt;

/// The two kinds of cgroup file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// One hierarchy per controller, or per few controllers.
    V1,
    /// One hierarchy for all controllers.
    V2,
}

/// One ability of a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// A quota of cpu time per period.
    Cpu,
    /// Counting the cpu time used.
    CpuTime,
    /// The device nodes that may be opened. Only v1 has files for this.
    Devices,
    /// Bytes per second to and from disks.
    Io,
    /// Killing all processes at once: `cgroup.kill` on v2, the freezer on v1.
    Kill,
    /// Bytes of memory, and counting them.
    Memory,
    /// Tasks, and counting refused forks.
    Pids,
}

impl Controller {
    /// Every controller.
    pub const ALL: [Controller; 7] = [
        Controller::Cpu,
        Controller::CpuTime,
        Controller::Devices,
        Controller::Io,
        Controller::Kill,
        Controller::Memory,
        Controller::Pids,
    ];

    /// The name among the mount options of a v1 hierarchy.
    pub(super) fn v1_name(self) -> &'static str {
        match self {
            Controller::Cpu => "cpu",
            Controller::CpuTime => "cpuacct",
            Controller::Devices => "devices",
            Controller::Io => "blkio",
            Controller::Kill => "freezer",
            Controller::Memory => "memory",
            Controller::Pids => "pids",
        }
    }

    /// The name in `cgroup.controllers`; `None` for abilities that every v2 group has, and for
    /// devices, which v2 leaves to BPF programs.
    pub(super) fn v2_name(self) -> Option<&'static str> {
        match self {
            Controller::Cpu => Some("cpu"),
            Controller::Io => Some("io"),
            Controller::Memory => Some("memory"),
            Controller::Pids => Some("pids"),
            Controller::CpuTime | Controller::Devices | Controller::Kill => None,
        }
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Controller::Cpu => "cpu",
            Controller::CpuTime => "cpu time",
            Controller::Devices => "devices",
            Controller::Io => "io",
            Controller::Kill => "kill",
            Controller::Memory => "memory",
            Controller::Pids => "pids",
        })
    }
}
