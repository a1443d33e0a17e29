use super::*;
use Access::{ReadOnly, Writable};
use Controller::{Cpu, CpuTime, Devices, Io, Kill, Memory, Pids};

fn v1(controllers: &[Controller], point: &str, access: Access, parent: &str) -> Mount {
    Mount {
        version: Version::V1,
        controllers: controllers.to_vec(),
        point: point.into(),
        access,
        parents: vec![parent.into()],
    }
}

fn v2(point: &str, access: Access, parents: &[&str]) -> Mount {
    Mount {
        version: Version::V2,
        controllers: Vec::new(),
        point: point.into(),
        access,
        parents: parents.iter().map(PathBuf::from).collect(),
    }
}

#[test]
fn v1_only_with_controllers_that_share_a_mount() {
    let mountinfo = "\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro
25 18 0:22 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:9 - tmpfs tmpfs ro,mode=755
26 25 0:23 / /sys/fs/cgroup/systemd rw,nosuid shared:10 - cgroup cgroup rw,xattr,name=systemd
29 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:15 - cgroup cgroup rw,cpu,cpuacct
30 25 0:27 / /sys/fs/cgroup/net_cls,net_prio rw,nosuid shared:16 - cgroup cgroup rw,net_cls,net_prio
31 25 0:28 / /sys/fs/cgroup/memory rw,nosuid shared:17 - cgroup cgroup rw,memory
32 25 0:29 / /sys/fs/cgroup/pids rw,nosuid shared:18 - cgroup cgroup rw,pids
33 25 0:30 / /sys/fs/cgroup/freezer rw,nosuid shared:19 - cgroup cgroup rw,freezer
";
    let membership = "\
11:freezer:/
9:pids:/user.slice/user-0.slice/session-1.scope
8:memory:/user.slice
4:cpu,cpuacct:/user.slice
3:net_cls,net_prio:/
1:name=systemd:/user.slice/user-0.slice/session-1.scope
";
    assert_eq!(
        survey(mountinfo, membership),
        [
            v1(
                &[Cpu, CpuTime],
                "/sys/fs/cgroup/cpu,cpuacct",
                Writable,
                "/sys/fs/cgroup/cpu,cpuacct/user.slice"
            ),
            v1(&[Memory], "/sys/fs/cgroup/memory", Writable, "/sys/fs/cgroup/memory/user.slice"),
            v1(
                &[Pids],
                "/sys/fs/cgroup/pids",
                Writable,
                "/sys/fs/cgroup/pids/user.slice/user-0.slice/session-1.scope"
            ),
            v1(&[Kill], "/sys/fs/cgroup/freezer", Writable, "/sys/fs/cgroup/freezer"),
        ]
    );
}

#[test]
fn hybrid_has_v1_controllers_and_a_v2_mount() {
    let mountinfo = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
36 31 0:33 / /sys/fs/cgroup/devices rw,relatime - cgroup cgroup rw,devices
38 31 0:35 / /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
";
    let membership = "5:devices:/\n4:memory:/jobs/one\n7:blkio:/\n0::/system.slice/agent.service\n";
    assert_eq!(
        survey(mountinfo, membership),
        [
            v1(&[Memory], "/sys/fs/cgroup/memory", Writable, "/sys/fs/cgroup/memory/jobs/one"),
            v1(&[Devices], "/sys/fs/cgroup/devices", Writable, "/sys/fs/cgroup/devices"),
            v1(&[Io], "/sys/fs/cgroup/blkio", Writable, "/sys/fs/cgroup/blkio"),
            v2(
                "/sys/fs/cgroup/unified",
                Writable,
                &[
                    "/sys/fs/cgroup/unified/system.slice/agent.service",
                    "/sys/fs/cgroup/unified/system.slice",
                    "/sys/fs/cgroup/unified",
                ]
            ),
        ]
    );
}

const V2: &str = "\
24 30 0:22 / /sys rw,nosuid,nodev,noexec,relatime shared:6 - sysfs sysfs rw
29 24 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
";

#[test]
fn v2_as_root_offers_its_own_group_and_all_above() {
    let parents = [
        "/sys/fs/cgroup/user.slice/user-0.slice/session-4.scope",
        "/sys/fs/cgroup/user.slice/user-0.slice",
        "/sys/fs/cgroup/user.slice",
        "/sys/fs/cgroup",
    ];
    let membership = "0::/user.slice/user-0.slice/session-4.scope\n";
    assert_eq!(survey(V2, membership), [v2("/sys/fs/cgroup", Writable, &parents)]);
}

#[test]
fn v2_of_a_systemd_user_starts_with_the_delegated_group() {
    let membership = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-u7.scope\n";
    let mounts = survey(V2, membership);
    let user = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service";
    assert_eq!(mounts[0].parents[0], Path::new(user).join("app.slice/run-u7.scope"));
    assert_eq!(mounts[0].parents[1], Path::new(user).join("app.slice"));
    assert_eq!(mounts[0].parents.len(), 6);
}

#[test]
fn container_with_its_own_cgroup_namespace_sees_its_group_as_the_top() {
    let mountinfo = "\
1103 1102 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate
";
    let expected = v2("/sys/fs/cgroup", ReadOnly, &["/sys/fs/cgroup"]);
    assert_eq!(survey(mountinfo, "0::/\n"), [expected]);
}

#[test]
fn container_on_v1_without_a_cgroup_namespace_has_its_group_as_root_of_the_mount() {
    let mountinfo = "\
700 690 0:32 /docker/4f1d /sys/fs/cgroup/memory ro,nosuid master:17 - cgroup cgroup rw,memory
701 690 0:33 /docker/4f1d /sys/fs/cgroup/pids rw,nosuid master:18 - cgroup cgroup rw,pids
";
    let membership = "5:memory:/docker/4f1d\n4:pids:/docker/4f1d/inner\n";
    assert_eq!(
        survey(mountinfo, membership),
        [
            v1(&[Memory], "/sys/fs/cgroup/memory", ReadOnly, "/sys/fs/cgroup/memory"),
            v1(&[Pids], "/sys/fs/cgroup/pids", Writable, "/sys/fs/cgroup/pids/inner"),
        ]
    );
}

#[test]
fn group_outside_the_namespace_or_the_mount_never_yields_a_path_with_dots() {
    for path in ["/../../other", "/elsewhere", "/docker/4f1d/../../x"] {
        let mountinfo = "9 8 0:26 /docker/4f1d /cg rw - cgroup2 cgroup2 rw\n";
        let mounts = survey(mountinfo, &format!("0::{path}\n"));
        assert_eq!(mounts, [v2("/cg", Writable, &["/cg"])], "{path}");
    }
}

#[test]
fn writable_mount_of_a_hierarchy_wins_over_a_read_only_one() {
    let mountinfo = "\
29 24 0:26 / /a rw - cgroup2 cgroup2 ro
30 24 0:26 / /b rw - cgroup2 cgroup2 rw
31 24 0:26 / /c rw - cgroup2 cgroup2 rw
";
    assert_eq!(survey(mountinfo, "0::/\n"), [v2("/b", Writable, &["/b"])]);
}

#[test]
fn nothing_is_found_when_nothing_is_mounted() {
    assert_eq!(survey("22 1 254:1 / / rw - ext4 /dev/vda1 rw\n", "0::/\n"), []);
    assert_eq!(survey("", ""), []);
    assert_eq!(survey("garbage\n - \n1 2 3 - cgroup2\n", "x\n::\n"), []);
}

#[test]
fn named_hierarchy_without_controllers_is_ignored() {
    let mountinfo = "26 25 0:23 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n";
    assert_eq!(survey(mountinfo, "1:name=systemd:/\n"), []);
}

#[test]
fn escaped_mount_points_are_unescaped() {
    let mountinfo = "29 24 0:26 / /my\\040cgroup\\134 rw - cgroup2 cgroup2 rw\n";
    assert_eq!(survey(mountinfo, "0::/\n")[0].point, Path::new("/my cgroup\\"));
}

#[test]
fn group_name_with_colons_is_kept_whole() {
    let mountinfo = "29 24 0:26 / /cg rw - cgroup2 cgroup2 rw\n";
    assert_eq!(survey(mountinfo, "0::/a:b:c\n")[0].parents[0], Path::new("/cg/a:b:c"));
}
