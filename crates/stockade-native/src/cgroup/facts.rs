//! What a group used, and which limits it met.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::files;
use super::{CgroupError, Controller, Group, Version};

/// How often a group met its memory limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryEvents {
    /// Times the limit was reached and something had to give way.
    pub limit_hits: u64,
    /// Processes killed for want of memory.
    pub oom_kills: u64,
}

impl Group {
    /// The most memory ever used, in bytes. On v2 needs Linux 5.19.
    pub fn memory_peak(&self) -> Result<u64, CgroupError> {
        let (version, path) = self.place(Controller::Memory)?;
        files::read_number(&path.join(match version {
            Version::V1 => "memory.max_usage_in_bytes",
            Version::V2 => "memory.peak",
        }))
    }

    /// The processes killed for want of memory.
    ///
    /// v1 counts them where they were, so a leaf is asked before it is removed: its count goes
    /// with it. v2 also keeps them in the groups above.
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

    /// How often the memory limit was met.
    pub fn memory_events(&self) -> Result<MemoryEvents, CgroupError> {
        let (version, path) = self.place(Controller::Memory)?;
        let limit_hits = match version {
            Version::V1 => {
                // With swap counted, the limit with swap is met first.
                let with_swap = path.join("memory.memsw.failcnt");
                let swap = if with_swap.exists() { files::read_number(&with_swap)? } else { 0 };
                files::read_number(&path.join("memory.failcnt"))? + swap
            }
            Version::V2 => files::read_keyed(&path.join("memory.events"), "max")?,
        };
        Ok(MemoryEvents { limit_hits, oom_kills: self.oom_kills()? })
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

    /// The most tasks ever inside, Stockade's own among them. Needs Linux 6.1.
    pub fn pids_peak(&self) -> Result<u64, CgroupError> {
        files::read_number(&self.place(Controller::Pids)?.1.join("pids.peak"))
    }

    /// How often a task was refused because of the limit.
    pub fn pids_hit(&self) -> Result<u64, CgroupError> {
        files::read_keyed(&self.place(Controller::Pids)?.1.join("pids.events"), "max")
    }

    fn place(&self, controller: Controller) -> Result<(Version, PathBuf), CgroupError> {
        let directory = self.directory(controller)?;
        Ok((directory.version, Path::to_owned(&directory.path)))
    }
}
