//! The resources that a group used, and the limits it reached.

use std::path::Path;
use std::time::Duration;

use super::files;
use super::{CgroupError, Controller, Group, Version};

/// Whether a group reached its memory limit, and the consequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryEvents {
    /// Whether the limit was ever reached, so that the kernel had to reclaim memory or kill.
    pub limit_reached: bool,
    /// Processes killed because memory ran out.
    pub oom_kills: u64,
}

impl Group {
    /// The memory in use now, in bytes, with files in memory and caches.
    pub fn memory_used(&self) -> Result<u64, CgroupError> {
        let (version, path) = self.place(Controller::Memory)?;
        files::read_number(&path.join(match version {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        }))
    }

    /// The most memory ever used, in bytes. On v2 needs Linux 5.19.
    pub fn memory_peak(&self) -> Result<u64, CgroupError> {
        let (version, path) = self.place(Controller::Memory)?;
        files::read_number(&path.join(match version {
            Version::V1 => "memory.max_usage_in_bytes",
            Version::V2 => "memory.peak",
        }))
    }

    /// The number of processes killed because memory ran out.
    ///
    /// v1 counts a kill only in the process's own group, so read a leaf before removing it. v2 also
    /// counts it in the groups above.
    pub fn oom_kills(&self) -> Result<u64, CgroupError> {
        let directory = self.directory(Controller::Memory)?;
        match directory.version {
            Version::V1 => {
                let mut kills = 0;
                for group in directory.groups()? {
                    kills += files::read_keyed(&group.join("memory.oom_control"), "oom_kill")?;
                }
                Ok(kills)
            }
            Version::V2 => files::read_keyed(&directory.path.join("memory.events"), "oom_kill"),
        }
    }

    /// Whether the memory limit was reached, and the kills that followed.
    pub fn memory_events(&self) -> Result<MemoryEvents, CgroupError> {
        let (version, path) = self.place(Controller::Memory)?;
        let limit_reached = match version {
            // Not `memory.failcnt`: since 6.18 at the latest it stays zero.
            Version::V1 => {
                let limit = files::read_number(&path.join("memory.limit_in_bytes"))?;
                self.memory_peak()? >= limit
            }
            Version::V2 => files::read_keyed(&path.join("memory.events"), "max")? > 0,
        };
        Ok(MemoryEvents { limit_reached, oom_kills: self.oom_kills()? })
    }

    /// The cpu time used.
    pub fn cpu_time(&self) -> Result<Duration, CgroupError> {
        let (version, path) = self.place(Controller::CpuTime)?;
        match version {
            Version::V1 => {
                files::read_number(&path.join("cpuacct.usage")).map(Duration::from_nanos)
            }
            Version::V2 => {
                let used = files::read_keyed(&path.join("cpu.stat"), "usage_usec");
                used.map(Duration::from_micros)
            }
        }
    }

    /// The most tasks ever inside, including Stockade's own. Needs Linux 6.1.
    pub fn pids_peak(&self) -> Result<u64, CgroupError> {
        files::read_number(&self.place(Controller::Pids)?.1.join("pids.peak"))
    }

    /// How many forks the limit refused.
    ///
    /// v1 counts a refusal only in the process's own group, so read a leaf before removing it.
    pub fn pids_hit(&self) -> Result<u64, CgroupError> {
        let directory = self.directory(Controller::Pids)?;
        let groups = match directory.version {
            Version::V1 => directory.groups()?,
            Version::V2 => vec![directory.path.clone()],
        };
        let mut hits = 0;
        for group in groups {
            hits += files::read_keyed(&group.join("pids.events"), "max")?;
        }
        Ok(hits)
    }

    fn place(&self, controller: Controller) -> Result<(Version, &Path), CgroupError> {
        let directory = self.directory(controller)?;
        Ok((directory.version, &directory.path))
    }
}
