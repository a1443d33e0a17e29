//! Classes A and B: reading the host's files, and changing them.

use crate::probe::{
    Act, Class, ControlSite, Expect, Probe, blocked, not_applicable, refused, scene, virtualised,
};
use crate::{checks, scenes};

const GONE: &[&str] = &["ENOENT", "EACCES"];
const NO_CHANGE: &[&str] = &["EROFS", "EACCES", "EPERM", "ENOENT", "EXDEV"];
const SHOWN: &[&str] = &["--mount", "{shown}:/shown"];

/// A: reading host secrets.
pub(super) const READING: &[Probe] = &[
    blocked(
        "A01",
        "keys and passwords of the host's users",
        &[
            refused(
                &["read", "/etc/shadow", "/root/.ssh/id_ed25519", "/etc/ssl/private/key.pem"],
                GONE,
            ),
            Act::new(
                &["read", "{home}/.ssh/id_ed25519", "{home}/.aws/credentials", "{home}/.netrc"],
                Expect::Refused(GONE, &[]),
            ),
            refused(
                &[
                    "read",
                    "{home}/.docker/config.json",
                    "{home}/.kube/config",
                    "{home}/.npmrc",
                    "{home}/.pypirc",
                    "{home}/.git-credentials",
                ],
                GONE,
            ),
        ],
    ),
    blocked(
        "A02",
        "files that every user of the host may read",
        &[refused(&["read", "{public}", "{public-2}", "{public-3}"], &["ENOENT"])],
    ),
    blocked(
        "A03",
        "other spellings of a path",
        &[refused(
            &[
                "read",
                "/usr/..{public}",
                "/{public}",
                "/.{public}",
                "/usr/bin/../../{public}",
                "/dev/../{public}",
                "/proc/../{public}",
                "/tmp/..{public-2}",
            ],
            &["ENOENT", "ENOTDIR"],
        )],
    ),
    blocked(
        "A04",
        "the root through /proc",
        &[refused(
            &[
                "read",
                "/proc/self/root{public}",
                "/proc/self/cwd/../../../../../../../..{public}",
                "/proc/thread-self/root{public}",
                "/proc/1/root{public}",
            ],
            GONE,
        )],
    ),
    blocked(
        "A05",
        "climbing above every mount with ..",
        &[refused(&["climb", "{public}", "/usr", "/proc", "/dev", "/tmp", "/"], &["ENOENT"])],
    ),
    blocked(
        "A06",
        "escaping a chroot",
        &[refused(&["chroot", "/tmp"], &["EPERM"]).without(&["chroot", "{tree}"])],
    ),
    blocked(
        "A07",
        "opening a file by its handle, which bypasses mounts",
        &[refused(&["by-handle", "/etc/passwd"], &["EPERM", "ENOSYS"])],
    ),
    virtualised(
        "A08",
        "descriptors of the process that started Stockade",
        &[Act::new(&["descriptors"], Expect::Note("0=pipe 1=pipe 2=pipe"))
            .after("exec 7<{public} 9</")],
    ),
    virtualised(
        "A10",
        "environment of the process that started Stockade",
        &[Act::new(&["environment"], Expect::Hidden)],
    ),
    virtualised(
        "A11",
        "arguments of other processes",
        &[Act::new(&["scan", "cmdline"], Expect::Searched)],
    ),
    blocked(
        "A12",
        "memory of the first process",
        &[
            refused(&["memory-of", "1"], &["EACCES", "EPERM", "ENOENT"])
                .without(&["memory-of", "{process}"]),
            refused(&["trace", "1"], &["EPERM"]).without(&["trace", "{process}"]),
        ],
    ),
    virtualised(
        "A14",
        "host paths in the list of mounts",
        &[Act::new(&["read", "/proc/self/mountinfo"], Expect::Check(checks::no_label))
            .flags(SHOWN)],
    ),
    virtualised(
        "A15",
        "cgroup names, which could identify a sandbox",
        &[Act::new(&["read", "/proc/self/cgroup"], Expect::Check(checks::cgroups_are_own))
            .control(ControlSite::Without("cgroup-view"))],
    ),
    virtualised(
        "A16",
        "identifiers of the host",
        &[Act::new(&["host-names"], Expect::Check(checks::no_host_identity))],
    ),
    blocked(
        "A17",
        "a device through a new device node",
        &[refused(&["make-device", "/tmp", "1:9"], &["EPERM", "EACCES"]).without(&[
            "make-device",
            "{tree}",
            "1:9",
        ])],
    ),
    virtualised(
        "A18",
        "a core dump after a crash",
        &[Act::new(&["core-limit"], Expect::Note("dumped=false")).after("ulimit -c unlimited")],
    ),
    virtualised(
        "A19",
        "deleted files that another process holds open",
        &[Act::new(&["deleted"], Expect::Searched)],
    ),
    not_applicable(
        "A20",
        "files that the host reads from the sandbox",
        "this version cannot read files from a sandbox",
    ),
];

/// B: writing outside the workspace.
pub(super) const WRITING: &[Probe] = &[
    blocked(
        "B01",
        "thirteen ways to change a read-only file",
        &[
            refused(&["change", "/usr/bin", "/usr/bin/env"], NO_CHANGE).without(&[
                "change",
                "{tree}",
                "{tree}/file",
            ]),
            refused(&["change", "/etc", "/etc/passwd"], NO_CHANGE).without(&[
                "change",
                "{tree}",
                "{tree}/file",
            ]),
            refused(&["change", "/", "/etc/hosts"], NO_CHANGE).without(&[
                "change",
                "{tree}",
                "{tree}/file",
            ]),
            refused(&["change", "/shown", "/shown/file"], NO_CHANGE)
                .without(&["change", "{tree}", "{tree}/file"])
                .flags(SHOWN),
        ],
    ),
    blocked(
        "B02",
        "truncating a file that is opened for reading",
        &[refused(&["empty-by-reading", "/shown/file"], &["EROFS", "EACCES"])
            .without(&["empty-by-reading", "{tree}/file"])
            .flags(SHOWN)],
    ),
    blocked(
        "B04",
        "remounting writable, and unmounting a cover",
        &[
            refused(&["mount", "remount", "/usr"], &["EPERM"]).without(&[
                "apart-mount",
                "remount",
                "/proc",
            ]),
            refused(&["mount", "umount", "/proc/meminfo"], &["EPERM"]).without(&[
                "apart-mount",
                "umount",
                "/proc",
            ]),
        ],
    ),
    blocked(
        "B05",
        "writing through a shared mapping",
        &[refused(&["map-to-write", "/shown/file"], &["EROFS", "EACCES"])
            .without(&["map-to-write", "{tree}/file"])
            .flags(SHOWN)],
    ),
    scene(
        "B06",
        "files that a tool of the host runs later",
        Class::Virtual,
        scenes::files::hooks_control,
        scenes::files::hooks,
    ),
    scene(
        "B07",
        "a link in place of a folder that holds something read-only",
        Class::Blocked,
        scenes::files::link_control,
        scenes::files::link,
    ),
    blocked(
        "B10",
        "set-user-ID files and file capabilities",
        &[refused(&["special-bits", "/out"], &["EPERM"])
            .without(&["special-bits", "{tree}"])
            .flags(&["--mount", "{writable}:/out:rw"])],
    ),
    scene(
        "B11",
        "the workspace of another sandbox",
        Class::Virtual,
        scenes::neighbours::control,
        scenes::neighbours::files,
    ),
    scene(
        "B13",
        "programs in the workspace with names of host programs",
        Class::Virtual,
        scenes::files::fakes_control,
        scenes::files::fakes,
    ),
    scene(
        "B14",
        "the policy file of this sandbox",
        Class::Blocked,
        scenes::faults::policy_control,
        scenes::files::changeable_policy,
    ),
];
