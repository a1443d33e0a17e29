//! Settings, filters and containers that can forbid a wall on this host.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Serialize;

/// Everything known to forbid namespaces, with its value on this host. `None` if the host does not
/// have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Knobs {
    /// The sysctls `user.max_…_namespaces`, by name.
    pub max_namespaces: BTreeMap<String, u64>,
    /// Debian's sysctl `kernel.unprivileged_userns_clone`; 0 forbids.
    pub unprivileged_userns_clone: Option<u64>,
    /// Ubuntu's sysctl `kernel.apparmor_restrict_unprivileged_userns`; 1 requires an AppArmor
    /// profile.
    pub apparmor_restrict_unprivileged_userns: Option<u64>,
    /// The sysctl `vm.memfd_noexec`; 2 forbids executing a memfd.
    pub memfd_noexec: Option<u64>,
    /// The evidence that this is a container.
    pub container: Option<String>,
    /// Whether a seccomp filter applies to this process.
    pub seccomp_filter: bool,
    /// The errno with which a filter refuses a clone into new namespaces.
    pub clone_refused: Option<i32>,
    /// The errno with which clone3(2) fails.
    pub clone3_refused: Option<i32>,
    /// Whether this process is root, at least in its own user namespace.
    pub is_root: bool,
    /// How many user ids this user namespace maps; 4294967295 in the initial one.
    pub user_ids: Option<u64>,
}

impl Knobs {
    /// Inspects the host without changing or starting anything.
    pub fn look() -> Knobs {
        let errno = |error: Option<std::io::Error>| error.and_then(|it| it.raw_os_error());
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Knobs {
            max_namespaces: max_namespaces(),
            unprivileged_userns_clone: number("/proc/sys/kernel/unprivileged_userns_clone"),
            apparmor_restrict_unprivileged_userns: number(
                "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            ),
            memfd_noexec: number("/proc/sys/vm/memfd_noexec"),
            container: container(
                |path| Path::new(path).exists(),
                &text("/proc/1/cgroup"),
                &text("/proc/1/environ"),
            ),
            seccomp_filter: has_filter(&text("/proc/self/status")),
            clone_refused: errno(stockade_sys::clone_refused_by_filter()),
            clone3_refused: errno(stockade_sys::clone3_refused()),
            is_root: rustix::process::geteuid().is_root(),
            user_ids: ids(&text("/proc/self/uid_map")),
        }
    }
}

fn number(path: impl AsRef<Path>) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn max_namespaces() -> BTreeMap<String, u64> {
    let kinds = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];
    let values = kinds.iter().filter_map(|kind| {
        let name = format!("max_{kind}_namespaces");
        let value = number(Path::new("/proc/sys/user").join(&name))?;
        Some((format!("user.{name}"), value))
    });
    values.collect()
}

/// The evidence that this is a container: a file that engines create, the cgroup of process 1, or
/// its environment variable `container`.
fn container(exists: impl Fn(&str) -> bool, cgroup: &str, environment: &str) -> Option<String> {
    const FILES: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];
    const GROUPS: [&str; 5] = ["docker", "containerd", "kubepods", "libpod", "lxc"];
    if let Some(file) = FILES.into_iter().find(|file| exists(file)) {
        return Some(file.to_owned());
    }
    if let Some(group) = GROUPS.into_iter().find(|group| cgroup.contains(group)) {
        return Some(format!("the first process is in a group of {group}"));
    }
    let variable = environment.split('\0').find(|variable| variable.starts_with("container="))?;
    Some(format!("the first process has {variable}"))
}

/// Whether `Seccomp:` in proc_pid_status(5) is 2, filter mode.
fn has_filter(status: &str) -> bool {
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
    mode.is_some_and(|mode| mode.trim() == "2")
}

/// The sum of the third column of an id map, user_namespaces(7).
fn ids(map: &str) -> Option<u64> {
    let counts = map.lines().map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok());
    counts.sum::<Option<u64>>().filter(|ids| *ids > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_is_detected_by_file_cgroup_or_variable() {
        let nowhere = |_: &str| false;
        assert_eq!(container(nowhere, "0::/init.scope\n", "HOME=/\0TERM=linux\0"), None);
        let docker = container(|path| path == "/.dockerenv", "", "");
        assert_eq!(docker.as_deref(), Some("/.dockerenv"));
        let podman = container(|path| path == "/run/.containerenv", "", "");
        assert_eq!(podman.as_deref(), Some("/run/.containerenv"));
        let kubernetes = container(nowhere, "0::/kubepods.slice/kubepods-pod1.slice\n", "");
        assert_eq!(kubernetes.as_deref(), Some("the first process is in a group of kubepods"));
        let nspawn = container(nowhere, "0::/", "HOME=/\0container=systemd-nspawn\0");
        assert_eq!(nspawn.as_deref(), Some("the first process has container=systemd-nspawn"));
    }

    #[test]
    fn seccomp_mode_and_id_count_are_parsed() {
        assert!(has_filter("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"));
        assert!(!has_filter("Name:\tx\nSeccomp:\t0\nSeccomp_filters:\t0\n"));
        assert_eq!(ids("         0          0 4294967295\n"), Some(4_294_967_295));
        assert_eq!(ids("0 1000 1\n1 100000 65536\n"), Some(65_537));
        assert_eq!((ids(""), ids("what")), (None, None));
    }
}
