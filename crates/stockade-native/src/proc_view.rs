//! Builds the files of a sandbox's `/proc` that describe the machine.

use std::fs::File;
use std::io::{self, BufReader};

use stockade_policy::{Limit, Policy};

use crate::error::StartError;
use crate::proc_files::{Sizes, boot_id, cpuinfo, loadavg, meminfo, stat, uptime};
use stockade_sys::kernel_text;

/// Reads the host's files and adapts them to the policy.
pub(crate) fn proc_files(policy: &Policy) -> Result<Vec<(&'static str, String)>, StartError> {
    let limit = |limit: Limit| policy.limits.value(limit).unwrap_or(limit.spec().min);
    let sizes = Sizes { memory_bytes: limit(Limit::Memory) << 20, cpus_millis: limit(Limit::Cpu) };
    let read = || -> io::Result<Vec<(&'static str, String)>> {
        let processors = cpuinfo(BufReader::new(File::open("/proc/cpuinfo")?), sizes)?;
        Ok(vec![
            ("/proc/meminfo", meminfo(sizes)),
            ("/proc/cpuinfo", processors),
            ("/proc/stat", stat(&kernel_text("/proc/stat")?, sizes)),
            ("/proc/uptime", uptime(&kernel_text("/proc/uptime")?)),
            ("/proc/loadavg", loadavg()),
            ("/proc/sys/kernel/random/boot_id", boot_id(stockade_sys::random_bytes()?)),
        ])
    };
    read().map_err(StartError::prepare("read what /proc says of this host"))
}
