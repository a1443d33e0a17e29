//! Classes D and E: /proc, /sys and /dev, and the system calls.

use crate::checks;
use crate::probe::{
    Act, ControlSite, Expect, Probe, blocked, refused, refused_before, virtualised,
};

const CLOSED: &[&str] = &["ENOENT", "EACCES", "EPERM", "EROFS", "ENODATA"];
const PERM: &[&str] = &["EPERM"];
const PERM_OR_NONE: &[&str] = &["EPERM", "ENOSYS"];

/// D: /proc, /sys and /dev.
pub(super) const PLACES: &[Probe] = &[
    blocked(
        "D01",
        "settings of the kernel",
        &[refused(
            &[
                "open-to-write",
                "/proc/sys/kernel/core_pattern",
                "/proc/sys/kernel/hostname",
                "/proc/sys/vm/overcommit_memory",
                "/proc/sys/fs/binfmt_misc/register",
                "/proc/sys/kernel/shmmax",
            ],
            CLOSED,
        )],
    ),
    blocked(
        "D02",
        "files of /proc that describe the machine and its kernel",
        &[refused(
            &[
                "read",
                "/proc/kcore",
                "/proc/kallsyms",
                "/proc/modules",
                "/proc/keys",
                "/proc/timer_list",
                "/proc/sched_debug",
                "/proc/latency_stats",
                "/proc/cmdline",
                "/proc/interrupts",
                "/proc/partitions",
                "/proc/slabinfo",
            ],
            CLOSED,
        )],
    ),
    blocked(
        "D03",
        "the trigger that restarts the host",
        &[refused(&["open-to-write", "/proc/sysrq-trigger"], CLOSED)],
    ),
    blocked(
        "D04",
        "overwriting the running executable",
        &[refused(
            &["reopen-to-write", "/proc/1/exe", "/proc/self/exe", "/probe/stockade-probe"],
            &["EACCES", "EROFS", "ETXTBSY", "ENOENT", "EPERM"],
        )
        .without(&["reopen-to-write", "{tree}/file"])],
    ),
    virtualised("D05", "other processes", &[Act::new(&["processes"], Expect::Most(1))]),
    blocked(
        "D07",
        "mounting a new /proc without covers",
        &[refused(&["mount", "proc", "/tmp"], PERM).without(&[
            "apart-mount",
            "proc",
            "{tree}/directory",
        ])],
    ),
    blocked(
        "D08",
        "another namespace through /proc",
        &[refused(&["call", "setns_by_file", "setns_by_pid"], PERM)],
    ),
    blocked(
        "D11",
        "/sys",
        &[refused(
            &["list", "/sys", "/sys/class", "/sys/kernel", "/sys/firmware", "/sys/block"],
            &["ENOENT"],
        )],
    ),
    blocked(
        "D12",
        "cgroups as files",
        &[
            refused(&["list", "/sys/fs/cgroup"], &["ENOENT"]),
            refused(&["mount", "bind", "/tmp"], PERM).without(&[
                "apart-mount",
                "bind",
                "{tree}/directory",
            ]),
        ],
    ),
    virtualised(
        "D13",
        "everything in /dev",
        &[Act::new(
            &["list", "/dev"],
            Expect::Note("fd full null ptmx pts random shm stderr stdin stdout tty urandom zero"),
        )],
    ),
    blocked(
        "D14",
        "devices that reach the host's kernel",
        &[refused(
            &[
                "open-to-write",
                "/dev/kvm",
                "/dev/fuse",
                "/dev/net/tun",
                "/dev/vsock",
                "/dev/vhost-vsock",
                "/dev/loop-control",
                "/dev/uinput",
                "/dev/snapshot",
                "/dev/mem",
                "/dev/kmsg",
            ],
            &["ENOENT"],
        )],
    ),
    virtualised(
        "D15",
        "terminals of the host",
        &[Act::new(&["list", "/dev/pts"], Expect::Note("ptmx"))],
    ),
    blocked(
        "D16",
        "writing the id map again",
        &[refused(&["rewrite-map"], &["EPERM", "EACCES", "EROFS"])
            .without(&["rewrite-map", "fresh"])],
    ),
    blocked(
        "D17",
        "the score by which the kernel chooses a victim when memory runs out",
        &[refused(&["open-to-write", "/proc/self/oom_score_adj"], CLOSED)],
    ),
    virtualised(
        "D18",
        "size and load of the host",
        &[
            Act::new(&["read", "/proc/meminfo"], Expect::Check(checks::memory_is_the_limit)),
            Act::new(
                &["read", "/proc/loadavg"],
                Expect::Note("/proc/loadavg: 0.00 0.00 0.00 1/1 1\n"),
            ),
        ],
    ),
];

/// E: system calls.
pub(super) const CALLS: &[Probe] = &[
    blocked("E01", "io_uring", &[refused(&["call", "io_uring_setup"], &["ENOSYS"])]),
    blocked("E02", "bpf", &[refused(&["call", "bpf"], PERM)]),
    blocked(
        "E03",
        "performance counters",
        &[refused(&["call", "perf_event_open"], &["EPERM", "EACCES"])],
    ),
    blocked(
        "E04",
        "page faults in user space",
        &[
            refused(&["call", "userfaultfd"], PERM_OR_NONE),
            refused(&["open-to-write", "/dev/userfaultfd"], &["ENOENT"]),
        ],
    ),
    blocked(
        "E05",
        "keyrings",
        &[refused_before(&["call", "keyctl", "add_key", "request_key"], PERM_OR_NONE, &["ENOKEY"])],
    ),
    blocked(
        "E06",
        "tracing",
        &[
            refused(&["call", "ptrace_traceme"], PERM),
            refused(&["trace", "1"], PERM).without(&["trace", "{process}"]),
        ],
    ),
    blocked(
        "E07",
        "memory and descriptors of processes",
        &[refused(&["call", "process_vm_readv", "pidfd_getfd", "kcmp"], PERM)],
    ),
    blocked(
        "E08",
        "mounting with mount(2)",
        &[
            refused(&["mount", "tmpfs", "/tmp"], PERM).without(&[
                "apart-mount",
                "tmpfs",
                "{tree}/directory",
            ]),
            refused(&["mount", "umount", "/tmp"], PERM).without(&[
                "apart-mount",
                "umount",
                "/proc",
            ]),
            refused_before(&["mount", "pivot_root"], PERM, &["EINVAL", "EBUSY"])
                .without(&["apart-mount", "pivot_root"]),
            refused(&["mount", "mount_setattr", "/tmp"], PERM_OR_NONE).without(&[
                "apart-mount",
                "mount_setattr",
                "/proc",
            ]),
        ],
    ),
    blocked(
        "E09",
        "mounting with the fsopen(2) family",
        &[refused(&["new-mount"], PERM_OR_NONE).without(&["apart-new-mount"])],
    ),
    blocked(
        "E10",
        "new namespaces",
        &[
            refused(&["call", "unshare_user"], PERM),
            refused(
                &[
                    "call",
                    "unshare_mounts",
                    "unshare_pid",
                    "unshare_network",
                    "unshare_ipc",
                    "unshare_uts",
                    "unshare_cgroup",
                    "unshare_time",
                ],
                PERM,
            ),
        ],
    ),
    blocked(
        "E11",
        "clone3, whose flags a filter cannot see, and its fallback",
        &[
            refused(&["clone3"], &["ENOSYS"]),
            // Threads and children must still work. The control is an act that starts none.
            Act::new(&["helpers"], Expect::Check(checks::helpers_run))
                .without(&["open-files", "1"]),
        ],
    ),
    blocked(
        "E12",
        "entering a namespace",
        &[refused(&["call", "setns_by_pid", "setns_by_file"], PERM)],
    ),
    blocked(
        "E13",
        "modules, restarts, swap, accounting",
        &[
            refused_before(&["administer", "reboot"], PERM, &["EINVAL"]),
            refused_before(&["administer", "kexec_load"], PERM_OR_NONE, &["EINVAL", "EBUSY"]),
            refused_before(&["administer", "init_module"], PERM_OR_NONE, &["ENOEXEC", "EINVAL"]),
            refused_before(
                &["administer", "delete_module", "swapoff", "acct"],
                PERM_OR_NONE,
                &["ENOENT", "EINVAL"],
            ),
            refused(&["administer", "syslog"], PERM),
        ],
    ),
    blocked(
        "E14",
        "the clock and the host's name",
        &[
            refused(&["administer", "settimeofday"], PERM),
            refused_before(&["administer", "clock_settime"], PERM, &["EINVAL"]),
            refused(&["administer", "sethostname"], PERM),
        ],
    ),
    blocked(
        "E15",
        "ports and descriptor tables of the processor",
        &[
            refused(&["administer", "iopl", "ioperm"], PERM_OR_NONE),
            refused(&["administer", "modify_ldt"], PERM_OR_NONE),
        ],
    ),
    blocked(
        "E16",
        "personalities that weaken a process",
        &[refused(&["call", "personality_no_randomisation", "personality_executable_reads"], PERM)],
    ),
    blocked(
        "E17",
        "handles of files, and watches on everything",
        &[refused(&["call", "name_to_handle_at", "fanotify_init"], PERM_OR_NONE)],
    ),
    blocked(
        "E18",
        "programs outside command_allowlist, from memory and from a mount",
        &[
            refused(&["start", "/shown/unlisted"], &["EACCES"])
                .without(&["start", "{shown}/unlisted"])
                .flags(&["--policy", "{listed}"]),
            // ENOSYS where no cgroup counts memory: no file in memory can be made then.
            refused(&["start-memory"], &["EACCES", "EPERM", "ENOSYS"])
                .flags(&["--policy", "{listed}"]),
            refused(&["call", "memfd_secret"], PERM_OR_NONE),
        ],
    ),
    virtualised(
        "E20",
        "socket families",
        &[Act::new(&["families"], Expect::Check(checks::few_families))],
    ),
    virtualised("E21", "netlink protocols", &[Act::new(&["netlink"], Expect::Note("0"))]),
    blocked("E22", "faking terminal input", &[refused(&["type-ahead"], PERM)]),
    blocked(
        "E23",
        "other calling conventions",
        &[
            Act::new(&["foreign", "int80"], Expect::Killed(31)),
            Act::new(&["foreign", "x32"], Expect::Killed(31)),
        ],
    ),
    virtualised(
        "E26",
        "unsetting no_new_privs",
        &[Act::new(&["no-new-privileges"], Expect::Note("NoNewPrivs=1"))],
    ),
    blocked(
        "E27",
        "changing user, group or capabilities",
        &[refused(&["become", "capabilities", "groups", "gid", "uid"], &["EPERM", "EINVAL"])],
    ),
    blocked(
        "E28",
        "a set-user-ID program of root",
        &[refused(&["run-as-owner", "/shown/as-owner"], PERM)
            .without(&["run-as-owner", "{shown}/as-owner"])
            .flags(&["--mount", "{shown}:/shown"])
            .control(ControlSite::HostNobody)],
    ),
    blocked(
        "E29",
        "scheduling priorities and NUMA placement",
        &[
            refused(&["administer", "sched_fifo", "nice"], &["EPERM", "EACCES"]),
            refused(&["call", "set_mempolicy", "move_pages"], PERM),
        ],
    ),
    blocked(
        "E30",
        "locked memory",
        &[refused(&["locks-of-memory", "32"], &["ENOMEM", "EPERM", "EAGAIN"])],
    ),
    blocked(
        "E31",
        "how the guest is scheduled",
        &[refused(
            &[
                "administer",
                "schedule_parent",
                "pin_parent",
                "nice_parent",
                "disk_priority_of_parent",
            ],
            PERM,
        )],
    ),
];
