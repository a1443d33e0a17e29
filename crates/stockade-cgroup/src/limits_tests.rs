use super::*;

const ALL: Limits = Limits {
    memory_bytes: Some(1 << 20),
    cpu_millis: Some(1500),
    pids: Some(10),
    io_bytes_per_second: Some(1000),
    device: None,
};

fn lines(limits: &Limits, version: Version, controller: Controller) -> Vec<String> {
    let settings = limits.settings(version, controller, &["8:0".to_owned()]);
    settings.iter().map(|it| format!("{}={}", it.file, it.value)).collect()
}

#[test]
fn v1_limits_memory_before_memory_with_swap() {
    let expected = [
        "memory.swappiness=0",
        "memory.limit_in_bytes=1048576",
        "memory.memsw.limit_in_bytes=1048576",
    ];
    assert_eq!(lines(&ALL, Version::V1, Controller::Memory), expected);
}

#[test]
fn v2_has_no_swap_with_or_without_a_limit() {
    let expected = ["memory.swap.max=0", "memory.max=1048576"];
    assert_eq!(lines(&ALL, Version::V2, Controller::Memory), expected);
    let unlimited = lines(&Limits::default(), Version::V2, Controller::Memory);
    assert_eq!(unlimited, ["memory.swap.max=0"]);
}

#[test]
fn only_a_file_about_swap_may_be_missing() {
    for version in [Version::V1, Version::V2] {
        for controller in Controller::ALL {
            for setting in ALL.settings(version, controller, &["8:0".to_owned()]) {
                let swap = ["memory.memsw.limit_in_bytes", "memory.swap.max"];
                let may_be_missing = setting.optional == Optional::File;
                assert_eq!(may_be_missing, swap.contains(&setting.file), "{setting:?}");
            }
        }
    }
}

#[test]
fn pids_limit_includes_our_own_task() {
    assert_eq!(lines(&ALL, Version::V1, Controller::Pids), ["pids.max=11"]);
    assert_eq!(lines(&ALL, Version::V2, Controller::Pids), ["pids.max=11"]);
}

#[test]
fn cpu_limit_is_a_quota_of_a_period_that_the_kernel_accepts() {
    let v1 = ["cpu.cfs_period_us=100000", "cpu.cfs_quota_us=150000"];
    assert_eq!(lines(&ALL, Version::V1, Controller::Cpu), v1);
    assert_eq!(lines(&ALL, Version::V2, Controller::Cpu), ["cpu.max=150000 100000"]);
    let tiny = Limits { cpu_millis: Some(1), ..ALL };
    assert_eq!(lines(&tiny, Version::V2, Controller::Cpu), ["cpu.max=1000 1000000"]);
}

#[test]
fn every_disk_is_limited_for_reads_and_writes() {
    let v1 =
        ["blkio.throttle.read_bps_device=8:0 1000", "blkio.throttle.write_bps_device=8:0 1000"];
    assert_eq!(lines(&ALL, Version::V1, Controller::Io), v1);
    assert_eq!(lines(&ALL, Version::V2, Controller::Io), ["io.max=8:0 rbps=1000 wbps=1000"]);
}

#[test]
fn devices_are_denied_before_some_are_allowed() {
    let written = lines(&Limits::default(), Version::V1, Controller::Devices);
    assert_eq!(written[0], "devices.deny=a");
    assert_eq!(written[1], "devices.allow=c 1:3 rw");
    assert_eq!(written.len(), 9);
    let more = Limits { device: Some((10, 232)), ..Limits::default() };
    let written = lines(&more, Version::V1, Controller::Devices);
    assert_eq!((written.len(), written[9].as_str()), (10, "devices.allow=c 10:232 rw"));
    assert!(lines(&ALL, Version::V2, Controller::Devices).is_empty());
}

#[test]
fn limits_need_their_controllers_and_zero_is_refused() {
    let needs = [Controller::Memory, Controller::Cpu, Controller::Pids, Controller::Io];
    assert_eq!(ALL.needs().unwrap(), needs);
    assert_eq!(Limits::default().needs().unwrap(), []);
    let refused = Limits { pids: Some(0), ..ALL }.needs().unwrap_err();
    assert_eq!(refused.to_string(), "limit pids to zero");
}
