//! Limits hold, and the limited programs work without them.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::support::*;
use crate::{Controller, Group, GroupName, Layout, Limits, MemoryEvents, Version};

/// Holds 200 MB in memory: `tail` keeps a line that does not end.
const HUNGRY: &str = "head -c 200000000 /dev/zero | tail";
/// Thirty processes at once; the shell ends with an error at the first refused fork.
const MANY: &str = "for i in $(seq 30); do sleep 1000 & done; exit 0";
const BUSY: &str = "while :; do :; done";

#[test]
fn memory_limit_kills_and_is_counted() {
    for (kind, layout) in layouts_with(&[Controller::Memory]) {
        let free = create(&layout, &Limits::default());
        assert!(spawn_in(&free, HUNGRY).wait().unwrap().success(), "{kind}: without a limit");
        let calm = MemoryEvents { limit_reached: false, oom_kills: 0 };
        assert_eq!(free.memory_events().unwrap(), calm, "{kind}");
        assert!(free.memory_peak().unwrap() >= 200_000_000);
        // What the ended program used is free again.
        assert!(free.memory_used().unwrap() < free.memory_peak().unwrap());
        finish(free);

        let bytes = 64 << 20;
        let group = create(&layout, &Limits { memory_bytes: Some(bytes), ..Limits::default() });
        assert_eq!(spawn_in(&group, HUNGRY).wait().unwrap().code(), Some(137), "{kind}");
        let killed = MemoryEvents { limit_reached: true, oom_kills: 1 };
        assert_eq!(group.memory_events().unwrap(), killed, "{kind}");
        let peak = group.memory_peak().unwrap();
        assert!(peak > bytes / 2 && peak <= bytes, "{kind}: {peak}");
        finish(group);
    }
}

#[test]
fn pids_limit_refuses_forks_and_is_counted() {
    for (kind, layout) in layouts_with(&[Controller::Pids]) {
        let free = create(&layout, &Limits::default());
        assert!(spawn_in(&free, MANY).wait().unwrap().success(), "{kind}: without a limit");
        assert_eq!(population(&free), 30);
        assert_eq!(free.pids_hit().unwrap(), 0);
        finish(free);

        let group = create(&layout, &Limits { pids: Some(10), ..Limits::default() });
        assert!(!spawn_in(&group, MANY).wait().unwrap().success(), "{kind}");
        assert!(group.pids_hit().unwrap() > 0, "{kind}");
        assert_eq!(group.pids_peak().unwrap(), 11, "{kind}: ten and one of our own");
        finish(group);
    }
}

#[test]
fn cpu_limit_slows() {
    for (kind, layout) in layouts_with(&[Controller::Cpu, Controller::CpuTime]) {
        let free = create(&layout, &Limits::default());
        let unlimited = time_for_cpu(&free, Duration::from_millis(150));
        finish(free);
        let group = create(&layout, &Limits { cpu_millis: Some(100), ..Limits::default() });
        let limited = time_for_cpu(&group, Duration::from_millis(150));
        finish(group);
        // A tenth of a cpu: at least fourteen periods of 100 ms must pass.
        assert!(limited > Duration::from_millis(1200), "{kind}: {limited:?}");
        assert!(unlimited < Duration::from_millis(1200), "{kind}: {unlimited:?}");
    }
}

/// How long two busy processes take to use some cpu time.
fn time_for_cpu(group: &Group, wanted: Duration) -> Duration {
    let mut children = [spawn_in(group, BUSY), spawn_in(group, BUSY)];
    wait_until("both are inside", || population(group) == 2);
    let (start, before) = (Instant::now(), group.cpu_time().unwrap());
    wait_until("the cpu time is used", || group.cpu_time().unwrap() - before >= wanted);
    let taken = start.elapsed();
    group.kill_all(soon()).unwrap();
    for child in &mut children {
        child.wait().unwrap();
    }
    taken
}

#[test]
fn io_limit_slows_direct_writes() {
    // Next to this executable, because a temporary directory is often not on a disk.
    let file = std::env::current_exe().unwrap().with_extension(std::process::id().to_string());
    let script = format!("dd if=/dev/zero of='{}' bs=512k count=8 oflag=direct", file.display());
    for (kind, layout) in layouts_with(&[Controller::Io]) {
        let start = Instant::now();
        if !spawn_outside(&script).wait().unwrap().success() || !is_on_a_disk(&file) {
            cannot_run("the build directory is not on a disk that takes direct writes");
            break;
        }
        let unlimited = start.elapsed();
        let rate = 2 << 20;
        let limits = Limits { io_bytes_per_second: Some(rate), ..Limits::default() };
        let group = create(&layout, &limits);
        let start = Instant::now();
        assert!(spawn_in(&group, &script).wait().unwrap().success(), "{kind}");
        let limited = start.elapsed();
        finish(group);
        // 4 MiB at 2 MiB per second, of which the first slice is free.
        assert!(limited > Duration::from_millis(1000), "{kind}: {limited:?}");
        assert!(unlimited < Duration::from_millis(1000), "{kind}: {unlimited:?}");
    }
    let _ = std::fs::remove_file(file);
}

fn is_on_a_disk(file: &Path) -> bool {
    let device = std::fs::metadata(file).unwrap().dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    Path::new(&format!("/sys/dev/block/{major}:{minor}")).exists()
}

#[test]
fn other_devices_than_the_ordinary_ones_cannot_be_opened() {
    // A host with only v2 lacks nothing here, so this is not a skip that `STOCKADE_REQUIRE` could
    // forbid.
    if Layout::detect().hierarchies().iter().all(|it| it.version == Version::V2) {
        return say("not for this host: only v1 has the controller devices");
    }
    for (kind, layout) in layouts_with(&[Controller::Devices]) {
        let log = ": < /dev/kmsg";
        if !spawn_outside(log).wait().unwrap().success() {
            return cannot_run("this user may not read the kernel's log, in a group or not");
        }
        let group = create(&layout, &Limits::default());
        assert!(!spawn_in(&group, log).wait().unwrap().success(), "{kind}");
        let ordinary = "for d in null zero full random urandom; do : < /dev/$d || exit 1; done";
        assert!(spawn_in(&group, ordinary).wait().unwrap().success(), "{kind}");
        finish(group);
    }
}

#[test]
fn limit_without_its_controller_is_refused() {
    let limits = Limits { memory_bytes: Some(1 << 20), ..Limits::default() };
    let name = GroupName::new().unwrap();
    let refused = Group::create(&Layout::none(), &name, &limits).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "use the cgroup controller memory: no cgroup file system with this controller is mounted; \
         mount cgroup2 on /sys/fs/cgroup; in a container, pass the host's cgroup through"
    );
}

#[test]
fn value_that_the_kernel_refuses_leaves_no_group() {
    let Some(layout) = layout_with(&[Controller::Cpu]) else { return };
    let limits = Limits { cpu_millis: Some(u64::MAX), ..Limits::default() };
    let name = GroupName::new().unwrap();
    let refused = Group::create(&layout, &name, &limits).unwrap_err();
    assert!(refused.to_string().contains("to /"), "{refused}");
    for hierarchy in layout.hierarchies() {
        let path = hierarchy.parent.join("stockade").join(name.to_string());
        assert!(!path.exists(), "{}", path.display());
    }
}
