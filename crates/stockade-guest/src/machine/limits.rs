//! Limits programs, and gives up the rights of root.

use std::fs;
use std::io;
use std::path::Path;

use rustix::mount::MountFlags;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::system::sethostname;
use stockade_launcher::{become_user, seal};
use stockade_sys::bring_up_loopback;
use stockade_wire::{MACHINE_CGROUP, MachineLimits, MachinePlan};

use super::cannot;
use super::mounts::fresh;

const CGROUPS: &str = "/sys/fs/cgroup";
const HOST_NAME: &[u8] = b"sandbox";
/// Too small for any core dump.
const CORE_BYTES: u64 = 1;
/// Linux's defaults for a user.
const QUEUE_BYTES: u64 = 819_200;
const PENDING_SIGNALS: u64 = 4096;
const LOCKED_BYTES: u64 = 8 << 20;
/// The period of a processor limit, in microseconds.
const PERIOD: u64 = 100_000;

/// Enters the cgroup with the plan's limits and becomes the plan's user, without any capability.
pub(super) fn apply(plan: &MachinePlan) -> io::Result<()> {
    bring_up_loopback().map_err(cannot("bring up the loopback interface"))?;
    sethostname(HOST_NAME)?;
    for (path, value) in [
        // The guest and programs bind every port; the machine has no other network.
        ("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0"),
        // The cgroup limits what is used; with a guess at requests a program that reserves much
        // would fail here and nowhere else.
        ("/proc/sys/vm/overcommit_memory", "1"),
        ("/proc/sys/kernel/dmesg_restrict", "1"),
        ("/proc/sys/kernel/kptr_restrict", "2"),
    ] {
        fs::write(path, value).map_err(cannot(format_args!("write {path}")))?;
    }
    cgroup(&plan.limits)?;
    for (resource, amount) in [
        (Resource::Core, CORE_BYTES),
        (Resource::Memlock, LOCKED_BYTES),
        (Resource::Msgqueue, QUEUE_BYTES),
        (Resource::Sigpending, PENDING_SIGNALS),
        (Resource::Nofile, plan.limits.open_files),
    ] {
        setrlimit(resource, Rlimit { current: Some(amount), maximum: Some(amount) })?;
    }
    become_user(plan.user, plan.group).map_err(cannot("become the user of programs"))?;
    seal().map_err(cannot("give up all capabilities"))
}

/// The programs' cgroup. The guest is in it too, because it starts them.
fn cgroup(limits: &MachineLimits) -> io::Result<()> {
    let all = Path::new(CGROUPS);
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    fresh("cgroup2", all, flags, "")?;
    let own = Path::new(MACHINE_CGROUP);
    let write = |path: &Path, text: &str| {
        fs::write(path, text).map_err(cannot(format_args!("write {}", path.display())))
    };
    write(&all.join("cgroup.subtree_control"), "+cpu +memory +pids")?;
    fs::create_dir(own).map_err(cannot("make the cgroup of programs"))?;
    write(&own.join("memory.max"), &limits.memory_bytes.to_string())?;
    write(&own.join("pids.max"), &limits.tasks.to_string())?;
    let quota = limits.cpu_millis * PERIOD / 1000;
    write(&own.join("cpu.max"), &format!("{quota} {PERIOD}"))?;
    write(&own.join("cgroup.procs"), "1")
}
