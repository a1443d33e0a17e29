//! Limits as numbers, and the files to write them to. Pure.

use super::{CgroupError, Controller, Version};

/// The number of Stockade's own tasks in a group: the guest, which has one thread.
///
/// `pids.max` counts every task in the group, so it is the limit plus this.
pub const OWN_TASKS: u64 = 1;

/// The maximum use of a group. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Memory with page cache, tmpfs and kernel memory; swap is never used.
    pub memory_bytes: Option<u64>,
    /// Thousandths of one cpu.
    pub cpu_millis: Option<u64>,
    /// Processes and threads of the workload, without [`OWN_TASKS`].
    pub pids: Option<u64>,
    /// Reads and writes, each, per disk. On v1 this does not limit writes through the page cache.
    pub io_bytes_per_second: Option<u64>,
    /// One more character device that may be opened, by its numbers. Only v1 restricts devices.
    pub device: Option<(u32, u32)>,
}

/// One value for one file of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) file: &'static str,
    pub(super) value: String,
    pub(super) optional: Optional,
}

/// What may be missing without losing a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Optional {
    /// Nothing.
    Nothing,
    /// The file: then the kernel has nothing to limit there.
    File,
    /// The disk that the value names: it was removed concurrently.
    Disk,
}

/// The devices of an ordinary sandbox: null, zero, full, random, urandom, tty, ptmx and terminals.
const DEVICES: [&str; 8] = ["1:3", "1:5", "1:7", "1:8", "1:9", "5:0", "5:2", "136:*"];

impl Limits {
    /// The controllers that these limits need. A limit of zero is an error.
    pub(super) fn needs(&self) -> Result<Vec<Controller>, CgroupError> {
        let asked = [
            (Controller::Memory, self.memory_bytes),
            (Controller::Cpu, self.cpu_millis),
            (Controller::Pids, self.pids),
            (Controller::Io, self.io_bytes_per_second),
        ];
        match asked.iter().find(|(_, limit)| *limit == Some(0)) {
            Some((controller, _)) => Err(CgroupError::ZeroLimit { controller: *controller }),
            None => Ok(asked.iter().filter(|it| it.1.is_some()).map(|it| it.0).collect()),
        }
    }

    /// What to write for a controller, in order. `disks` are whole disks as `major:minor`.
    pub(super) fn settings(
        &self,
        version: Version,
        controller: Controller,
        disks: &[String],
    ) -> Vec<Setting> {
        match (version, controller) {
            (Version::V1, Controller::Memory) => self.v1_memory(),
            (Version::V2, Controller::Memory) => self.v2_memory(),
            (Version::V1, Controller::Devices) => devices(self.device),
            (_, Controller::Pids) => {
                let tasks = self.pids.map(|pids| pids.saturating_add(OWN_TASKS));
                tasks.map(|tasks| must("pids.max", tasks)).into_iter().collect()
            }
            (_, Controller::Cpu) => self.cpu(version),
            (_, Controller::Io) => self.io(version, disks),
            (_, Controller::CpuTime | Controller::Kill) | (Version::V2, Controller::Devices) => {
                Vec::new()
            }
        }
    }

    fn v1_memory(&self) -> Vec<Setting> {
        let mut settings = vec![must("memory.swappiness", 0)];
        if let Some(bytes) = self.memory_bytes {
            settings.push(must("memory.limit_in_bytes", bytes));
            // Second: the limit of memory plus swap may never be below that of memory. Without the
            // file the kernel does not count swap, and a swappiness of zero keeps the group out of
            // it.
            settings.push(if_there("memory.memsw.limit_in_bytes", bytes));
        }
        settings
    }

    fn v2_memory(&self) -> Vec<Setting> {
        // The file is missing only on a kernel without swap.
        let mut settings = vec![if_there("memory.swap.max", 0)];
        settings.extend(self.memory_bytes.map(|bytes| must("memory.max", bytes)));
        settings
    }

    fn cpu(&self, version: Version) -> Vec<Setting> {
        let Some(millis) = self.cpu_millis else { return Vec::new() };
        // The kernel refuses a quota below a millisecond, so a very small one needs a long period.
        let period: u64 = if millis < 10 { 1_000_000 } else { 100_000 };
        let quota = millis.saturating_mul(period / 1000);
        match version {
            Version::V1 => vec![must("cpu.cfs_period_us", period), must("cpu.cfs_quota_us", quota)],
            Version::V2 => vec![must("cpu.max", format!("{quota} {period}"))],
        }
    }

    fn io(&self, version: Version, disks: &[String]) -> Vec<Setting> {
        let Some(rate) = self.io_bytes_per_second else { return Vec::new() };
        let each = |disk: &String| match version {
            Version::V1 => vec![
                per_disk("blkio.throttle.read_bps_device", format!("{disk} {rate}")),
                per_disk("blkio.throttle.write_bps_device", format!("{disk} {rate}")),
            ],
            Version::V2 => vec![per_disk("io.max", format!("{disk} rbps={rate} wbps={rate}"))],
        };
        disks.iter().flat_map(each).collect()
    }
}

fn devices(more: Option<(u32, u32)>) -> Vec<Setting> {
    let more = more.map(|(major, minor)| format!("{major}:{minor}"));
    let all = DEVICES.into_iter().map(str::to_owned).chain(more);
    let mut settings = vec![must("devices.deny", "a")];
    // Read and write access without mknod: the sandbox's nodes are bind mounts.
    settings.extend(all.map(|device| must("devices.allow", format!("c {device} rw"))));
    settings
}

fn must(file: &'static str, value: impl ToString) -> Setting {
    Setting { file, value: value.to_string(), optional: Optional::Nothing }
}

fn if_there(file: &'static str, value: impl ToString) -> Setting {
    Setting { file, value: value.to_string(), optional: Optional::File }
}

fn per_disk(file: &'static str, value: String) -> Setting {
    Setting { file, value, optional: Optional::Disk }
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
