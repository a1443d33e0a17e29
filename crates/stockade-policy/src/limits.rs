//! The limits a policy can set: names, units, bounds and defaults in one table.

use serde::Serialize;

use crate::source::{Basis, Sourced};

/// One limit of the policy language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Processor share, in thousandths of a cpu.
    Cpu,
    /// Memory with everything written to memory-backed files, in MiB.
    Memory,
    /// Wall-clock time of one execution, in milliseconds.
    Timeout,
    /// Calls to tools in one session.
    ToolCalls,
    /// Processes and threads.
    Pids,
    /// Bytes in writable places, in MiB.
    Disk,
    /// Files and directories in writable places.
    Inodes,
    /// Open descriptors of one process.
    OpenFiles,
    /// Output kept from one execution, in bytes.
    Output,
    /// Processor time of one execution, in milliseconds.
    CpuTime,
    /// Block device traffic, in bytes per second.
    IoRate,
    /// Network connections open at once.
    Connections,
    /// Ports inside that are forwarded to the host at once.
    ForwardedPorts,
    /// Bytes sent and received through the gate in one session.
    EgressBytes,
    /// Bytes through the gate per second.
    EgressRate,
    /// Time of one call to a tool, in milliseconds.
    ToolTime,
    /// Bytes of the arguments of one call to a tool, and of its result.
    ToolBytes,
    /// How deep the arguments of one call to a tool are nested, and its result.
    ToolDepth,
    /// Calls to tools that begin in one second.
    ToolRate,
    /// Calls to tools that run at once.
    ToolsAtOnce,
    /// Age at which a session ends, in milliseconds.
    Lifetime,
    /// Time without an execution after which a session ends, in milliseconds.
    Idle,
    /// Time between SIGTERM and SIGKILL of a cancelled execution, in milliseconds.
    CancelGrace,
    /// Time between SIGTERM and SIGKILL of an execution that is out of time, in milliseconds.
    TimeoutGrace,
}

/// How a policy writes a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of CPUs, written with a decimal point; stored in thousandths.
    Cpus,
    /// A number of seconds, written with or without a decimal point; stored in milliseconds.
    Seconds,
    /// A whole number of MiB.
    Mebibytes,
    /// A whole number of bytes.
    Bytes,
    /// A whole number of bytes per second.
    BytesPerSecond,
    /// A count.
    Count,
}

impl Unit {
    /// The unit in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Unit::Cpus => "cpus",
            Unit::Seconds => "seconds",
            Unit::Mebibytes => "MiB",
            Unit::Bytes => "bytes",
            Unit::BytesPerSecond => "bytes per second",
            Unit::Count => "",
        }
    }

    /// How many stored units make one written unit.
    pub fn scale(self) -> u64 {
        match self {
            Unit::Cpus | Unit::Seconds => 1000,
            Unit::Mebibytes | Unit::Bytes | Unit::BytesPerSecond | Unit::Count => 1,
        }
    }

    /// Writes a stored value as a policy does.
    pub fn write(self, held: u64) -> String {
        let scale = self.scale();
        let (whole, rest) = (held / scale, held % scale);
        if scale == 1 || (rest == 0 && self == Unit::Seconds) {
            return whole.to_string();
        }
        let text = format!("{whole}.{rest:03}");
        let short = text.trim_end_matches('0');
        if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
    }
}

/// The fixed properties of a limit.
#[derive(Clone, Copy, Debug)]
pub struct LimitSpec {
    /// Which limit.
    pub limit: Limit,
    /// The mapping that contains the key: `defaults` or `limits`.
    pub section: &'static str,
    /// The key.
    pub key: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Smallest accepted value, in stored units.
    pub min: u64,
    /// Largest accepted value, in stored units.
    pub max: u64,
    /// The default, in stored units; `None` is unlimited.
    pub default: Option<u64>,
    /// What it limits, for documentation and editors.
    pub doc: &'static str,
}

impl LimitSpec {
    /// The key with its section, as in messages.
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.key)
    }

    /// The accepted values in words.
    pub fn bounds(&self) -> String {
        let unit = self.unit.as_str();
        let text = format!("{} to {}", self.unit.write(self.min), self.unit.write(self.max));
        if unit.is_empty() { text } else { format!("{text} {unit}") }
    }
}

const MINUTE: u64 = 60_000;
const DAY: u64 = 24 * 3600 * 1000;

macro_rules! spec {
    ($limit:ident, $section:literal, $key:literal, $unit:ident, $min:expr, $max:expr, $default:expr, $doc:literal) => {
        LimitSpec {
            limit: Limit::$limit,
            section: $section,
            key: $key,
            unit: Unit::$unit,
            min: $min,
            max: $max,
            default: $default,
            doc: $doc,
        }
    };
}

/// Every limit, in the order of the documentation.
#[rustfmt::skip]
pub const LIMITS: [LimitSpec; 24] = [
    spec!(Cpu, "defaults", "max_cpu", Cpus, 10, 1_024_000, Some(1000), "Processor share of the whole sandbox."),
    spec!(Memory, "defaults", "max_memory_mb", Mebibytes, 4, 4 << 20, Some(512), "Memory of the whole sandbox, memory-backed files included."),
    spec!(Timeout, "defaults", "timeout_seconds", Seconds, 10, 7 * DAY, Some(60_000), "Wall-clock time of one execution."),
    spec!(ToolCalls, "defaults", "max_tool_calls", Count, 0, 1_000_000, Some(10), "Calls to tools in one session."),
    spec!(Pids, "limits", "max_pids", Count, 1, 4 << 20, Some(256), "Processes and threads alive at once."),
    spec!(Disk, "limits", "max_disk_mb", Mebibytes, 1, 4 << 20, None, "Bytes in writable places of the sandbox; by default half of max_memory_mb, never more than it."),
    spec!(Inodes, "limits", "max_inodes", Count, 16, 100_000_000, Some(100_000), "Files and directories in writable places of the sandbox."),
    spec!(OpenFiles, "limits", "max_open_files", Count, 16, 1 << 20, Some(1024), "Open descriptors of one process."),
    spec!(Output, "limits", "max_output_bytes", Bytes, 0, 1 << 30, Some(1 << 20), "Output kept from one execution; the rest is counted and dropped."),
    spec!(CpuTime, "limits", "max_cpu_seconds", Seconds, 10, 1024 * 7 * DAY, None, "Processor time of one execution."),
    spec!(IoRate, "limits", "max_io_bytes_per_second", BytesPerSecond, 4096, 1 << 40, None, "Traffic with block devices."),
    spec!(Connections, "limits", "max_connections", Count, 0, 65_536, Some(64), "Network connections open at once."),
    spec!(ForwardedPorts, "limits", "max_forwarded_ports", Count, 0, 64, Some(16), "Ports of servers inside that the owner of the session forwards to this host at once."),
    spec!(EgressBytes, "limits", "max_egress_bytes", Bytes, 0, 1 << 50, Some(1 << 30), "Bytes sent and received through the gate in one session."),
    spec!(EgressRate, "limits", "max_egress_bytes_per_second", BytesPerSecond, 1024, 1 << 40, None, "Bytes through the gate per second."),
    spec!(ToolTime, "limits", "max_tool_seconds", Seconds, 10, DAY, Some(30_000), "Time of one call to a tool, from the request to the answer."),
    spec!(ToolBytes, "limits", "max_tool_bytes", Bytes, 2, 64 << 20, Some(1 << 20), "Bytes of the arguments of one call to a tool, and of its result."),
    spec!(ToolDepth, "limits", "max_tool_depth", Count, 1, 512, Some(64), "Levels of lists and mappings in the arguments of one call to a tool, and in its result."),
    spec!(ToolRate, "limits", "max_tool_calls_per_second", Count, 1, 1_000_000, None, "Calls to tools in one second; those beyond are refused."),
    spec!(ToolsAtOnce, "limits", "max_concurrent_tool_calls", Count, 1, 4096, Some(1024), "Calls to tools that run at once; those beyond wait their turn."),
    spec!(Lifetime, "limits", "max_lifetime_seconds", Seconds, 1000, 30 * DAY, Some(3_600_000), "Age at which a session ends; by default at least timeout_seconds."),
    spec!(Idle, "limits", "idle_seconds", Seconds, 1000, 30 * DAY, Some(600_000), "Time without an execution after which a session ends."),
    spec!(CancelGrace, "limits", "cancel_grace_seconds", Seconds, 0, MINUTE, Some(2000), "Time that a cancelled execution has between SIGTERM and SIGKILL."),
    spec!(TimeoutGrace, "limits", "timeout_grace_seconds", Seconds, 0, MINUTE, Some(0), "Time that an execution has between SIGTERM, at its timeout, and SIGKILL."),
];

impl Limit {
    /// The fixed properties of this limit.
    pub fn spec(self) -> &'static LimitSpec {
        LIMITS.iter().find(|spec| spec.limit == self).expect("every limit has a row in LIMITS")
    }
}

/// The limits of one policy, with every default filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    values: Vec<Option<Sourced<u64>>>,
    /// Whether limits must be exact: no rlimit-and-watchdog approximation.
    pub exact: Sourced<bool>,
}

impl Limits {
    /// Fills in the defaults for the limits that a text does not set.
    pub(crate) fn with_defaults(
        explicit: impl Fn(Limit) -> Option<Sourced<u64>>,
        exact: Sourced<bool>,
    ) -> Limits {
        let default = |spec: &LimitSpec| {
            spec.default.map(|value| Sourced::built_in(value, "the default of this limit"))
        };
        let values =
            LIMITS.iter().map(|spec| explicit(spec.limit).or_else(|| default(spec))).collect();
        let mut limits = Limits { values, exact };
        if limits.value(Limit::Disk).is_none() {
            let half = limits.value(Limit::Memory).map_or(1, |memory| (memory / 2).max(1));
            limits.set(Limit::Disk, Sourced::built_in(half, "half of max_memory_mb"));
        }
        let timeout = limits.value(Limit::Timeout).unwrap_or(0);
        let lifetime = limits.get(Limit::Lifetime).filter(|held| held.basis.origin().is_none());
        if lifetime.is_some_and(|held| held.value < timeout) {
            let raised = Sourced::built_in(timeout.max(1000), "at least timeout_seconds");
            limits.set(Limit::Lifetime, raised);
        }
        limits
    }

    /// The limit with its basis; `None` is unlimited.
    pub fn get(&self, limit: Limit) -> Option<&Sourced<u64>> {
        self.values[limit as usize].as_ref()
    }

    /// The limit in stored units.
    pub fn value(&self, limit: Limit) -> Option<u64> {
        self.get(limit).map(|held| held.value)
    }

    /// The basis of the limit.
    pub fn basis(&self, limit: Limit) -> Option<&Basis> {
        self.get(limit).map(|held| &held.basis)
    }

    /// Lowers a limit that is set; its basis stays.
    pub fn lower(&mut self, limit: Limit, value: u64) {
        if let Some(held) = &mut self.values[limit as usize] {
            held.value = held.value.min(value);
        }
    }

    pub(crate) fn set(&mut self, limit: Limit, value: Sourced<u64>) {
        self.values[limit as usize] = Some(value);
    }

    /// The smaller of each; exact if either is.
    pub(crate) fn narrow(&self, other: &Limits) -> Limits {
        let smaller = |limit: Limit| match (self.get(limit), other.get(limit)) {
            (Some(a), Some(b)) => Some(if b.value < a.value { b.clone() } else { a.clone() }),
            (a, b) => a.or(b).cloned(),
        };
        let values = LIMITS.iter().map(|spec| smaller(spec.limit)).collect();
        let exact = if self.exact.value { self.exact.clone() } else { other.exact.clone() };
        Limits { values, exact }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_at_its_own_index() {
        for (index, spec) in LIMITS.iter().enumerate() {
            assert_eq!(spec.limit as usize, index, "{}", spec.key);
            assert!(spec.min <= spec.max, "{}", spec.key);
            if let Some(default) = spec.default {
                assert!((spec.min..=spec.max).contains(&default), "{}", spec.key);
            }
        }
    }

    #[test]
    fn stored_values_are_written_in_policy_units() {
        assert_eq!(Unit::Cpus.write(1000), "1.0");
        assert_eq!(Unit::Cpus.write(250), "0.25");
        assert_eq!(Unit::Seconds.write(90_000), "90");
        assert_eq!(Unit::Seconds.write(1_500), "1.5");
        assert_eq!(Unit::Count.write(256), "256");
    }
}
