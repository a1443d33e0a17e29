//! What an engine offers, as it describes itself.

use std::collections::BTreeMap;

use bollard::ClientVersion;
use bollard::models::{Runtime as EngineRuntime, SystemInfo, SystemInfoCgroupVersionEnum};
use serde::Serialize;

use crate::Runtime;

/// An engine, as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EngineFacts {
    /// The engine's own id, which stays the same across restarts.
    pub id: String,
    /// Its version.
    pub version: String,
    /// The API version in use, such as `1.41`.
    pub api: String,
    /// The release of the kernel that it runs on.
    pub kernel: String,
    /// The machine, as `uname -m` names it.
    pub architecture: String,
    /// The cgroup version: 1 or 2; 0 if the engine does not report it.
    pub cgroups: u8,
    /// Whether it runs without root, in a user namespace.
    pub is_rootless: bool,
    /// Whether ids inside differ from those outside.
    pub remaps_ids: bool,
    /// Whether it has an AppArmor profile for containers.
    pub has_apparmor: bool,
    /// Whether it can install seccomp filters.
    pub has_seccomp: bool,
    /// Which limits it can hold.
    pub limits: EngineLimits,
    /// Whether it sees this machine's files.
    pub is_local: bool,
    /// The registered runtimes: each name with its command.
    pub runtimes: BTreeMap<String, String>,
}

/// The limits that an engine can hold with cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct EngineLimits {
    /// Memory.
    pub memory: bool,
    /// Swap.
    pub swap: bool,
    /// Processor share.
    pub cpu: bool,
    /// Processes.
    pub pids: bool,
}

impl EngineFacts {
    pub(crate) fn of(info: &SystemInfo, api: &ClientVersion, is_local: bool) -> EngineFacts {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let options = info.security_options.as_deref().unwrap_or_default();
        let has = |name: &str| {
            let named = |option: &String| option.split(',').next() == Some(&format!("name={name}"));
            options.iter().any(named)
        };
        EngineFacts {
            id: text(&info.id),
            version: text(&info.server_version),
            api: format!("{}.{}", api.major_version, api.minor_version),
            kernel: text(&info.kernel_version),
            architecture: text(&info.architecture),
            cgroups: match info.cgroup_version {
                Some(SystemInfoCgroupVersionEnum::_1) => 1,
                Some(SystemInfoCgroupVersionEnum::_2) => 2,
                _ => 0,
            },
            is_rootless: has("rootless"),
            remaps_ids: has("rootless") || has("userns"),
            has_apparmor: has("apparmor"),
            has_seccomp: has("seccomp"),
            limits: EngineLimits {
                memory: info.memory_limit == Some(true),
                swap: info.swap_limit == Some(true),
                cpu: info.cpu_cfs_quota == Some(true),
                pids: info.pids_limit == Some(true),
            },
            is_local,
            runtimes: info.runtimes.iter().flatten().map(command).collect(),
        }
    }

    /// Whether a runtime is registered.
    pub(crate) fn has(&self, runtime: Runtime) -> bool {
        self.runtimes.contains_key(runtime.name())
    }

    /// The registered runtimes that Stockade knows, strongest first.
    pub(crate) fn known_runtimes(&self) -> Vec<Runtime> {
        Runtime::ALL.into_iter().filter(|runtime| self.has(*runtime)).collect()
    }
}

/// A runtime's name and its command with arguments.
fn command((name, runtime): (&String, &EngineRuntime)) -> (String, String) {
    let path = runtime.path.as_deref().unwrap_or_default();
    let words = std::iter::once(path).chain(runtime.runtime_args.iter().flatten().map(|it| &**it));
    (name.clone(), words.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
pub(crate) fn example() -> EngineFacts {
    EngineFacts {
        id: "ABCD:EFGH".to_owned(),
        version: "20.10.24".to_owned(),
        api: "1.41".to_owned(),
        kernel: "6.1.0-18-amd64".to_owned(),
        architecture: "x86_64".to_owned(),
        cgroups: 2,
        is_rootless: false,
        remaps_ids: false,
        has_apparmor: false,
        has_seccomp: true,
        limits: EngineLimits { memory: true, swap: true, cpu: true, pids: true },
        is_local: true,
        runtimes: [
            ("runc", "runc"),
            ("runsc", "/usr/bin/runsc --network=none"),
            ("io.containerd.runc.v2", "runc"),
        ]
        .map(|(name, command)| (name.to_owned(), command.to_owned()))
        .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_of_an_engine_becomes_facts() {
        let info: SystemInfo = serde_json::from_value(serde_json::json!({
            "ID": "ABCD:EFGH",
            "ServerVersion": "20.10.24",
            "KernelVersion": "6.1.0-18-amd64",
            "Architecture": "x86_64",
            "CgroupVersion": "2",
            "SecurityOptions": ["name=seccomp,profile=default", "name=cgroupns"],
            "MemoryLimit": true, "SwapLimit": true, "CpuCfsQuota": true, "PidsLimit": true,
            "Runtimes": {
                "runc": {"path": "runc"},
                "runsc": {"path": "/usr/bin/runsc", "runtimeArgs": ["--network=none"]},
                "io.containerd.runc.v2": {"path": "runc"}
            },
        }))
        .unwrap();
        let version = ClientVersion { major_version: 1, minor_version: 41 };
        let facts = EngineFacts::of(&info, &version, true);
        assert_eq!(facts, example());
        assert_eq!(facts.known_runtimes(), [Runtime::Runsc, Runtime::Runc]);
        let empty = EngineFacts::of(&SystemInfo::default(), &version, false);
        assert_eq!((empty.cgroups, empty.limits.memory, empty.has_seccomp), (0, false, false));
    }

    #[test]
    fn rootless_and_remapping_engines_are_recognized() {
        let of = |options: &[&str]| {
            let options = options.iter().map(|option| (*option).to_owned()).collect();
            let info = SystemInfo { security_options: Some(options), ..SystemInfo::default() };
            let version = ClientVersion { major_version: 1, minor_version: 41 };
            let facts = EngineFacts::of(&info, &version, true);
            (facts.is_rootless, facts.remaps_ids, facts.has_apparmor)
        };
        assert_eq!(of(&["name=rootless"]), (true, true, false));
        assert_eq!(of(&["name=userns"]), (false, true, false));
        assert_eq!(of(&["name=apparmor", "name=seccomp,profile=default"]), (false, false, true));
    }
}
