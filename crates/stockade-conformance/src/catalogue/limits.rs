//! Class I: exhausting resources.

use crate::probe::{
    Act, Class, Expect, Probe, blocked, limited, not_applicable, refused, scene, virtualised,
};
use crate::{checks, scenes};

const SMALL: &[&str] = &["--memory", "64m", "--disk", "32m"];

/// I: exhaustion.
pub(super) const LIMITS: &[Probe] = &[
    limited(
        "I01",
        "unlimited processes",
        &[Act::new(&["children", "200"], Expect::Limited(32, "max_pids")).flags(&["--pids", "32"])],
    ),
    limited(
        "I02",
        "memory of every kind",
        &[
            Act::new(&["memory", "private", "256"], Expect::Limited(64, "max_memory_mb"))
                .flags(SMALL),
            Act::new(
                &["memory", "memory-file", "256"],
                Expect::Check(checks::unmapped_memory_is_held),
            )
            .flags(SMALL),
        ],
    ),
    scene(
        "I03",
        "swap, after memory is exhausted",
        Class::Limited,
        scenes::memory::swap_control,
        scenes::memory::swap,
    ),
    limited(
        "I05",
        "processors",
        &[Act::new(&["burn", "2", "1200"], Expect::Most(18)).flags(&["--cpus", "0.1"])],
    ),
    limited(
        "I06",
        "the disk, with write and with fallocate",
        &[
            Act::new(&["fill", "/tmp", "96"], Expect::Limited(32, "max_disk_mb"))
                .without(&["fill", "{tree}", "96"])
                .flags(&["--disk", "32m"]),
            refused(&["allocate", "/tmp", "96"], &["ENOSPC"])
                .without(&["allocate", "{tree}", "96"])
                .flags(&["--disk", "32m"]),
        ],
    ),
    limited(
        "I07",
        "inodes",
        &[Act::new(&["inodes", "/tmp", "500"], Expect::Limited(80, "max_inodes"))
            .without(&["inodes", "{tree}", "500"])
            .flags(&["--policy", "{few-inodes}"])],
    ),
    limited(
        "I08",
        "the writable layer over a workspace",
        &[Act::new(&["fill", "/workspace", "96"], Expect::Limited(32, "max_disk_mb"))
            .without(&["fill", "{tree}", "96"])
            .flags(&["--disk", "32m", "--workspace", "{workspace}"])],
    ),
    limited(
        "I09",
        "descriptors",
        &[Act::new(&["open-files", "3000"], Expect::Most(1024)).after("ulimit -n 4096")],
    ),
    limited(
        "I10",
        "unlimited output",
        &[Act::new(&["print", "4"], Expect::Check(checks::output_is_cut))],
    ),
    not_applicable(
        "I11",
        "logs of a container engine",
        "the native wall writes no log to the host's disk",
    ),
    limited(
        "I16",
        "queued signals",
        &[Act::new(&["queue-signals", "8000"], Expect::Most(4096)).after("ulimit -i 16384")],
    ),
    blocked(
        "I17",
        "leases, which block other processes that open a file",
        &[refused(&["lease", "/tmp/leased"], &["EPERM", "EINVAL"])
            .without(&["lease", "{tree}/file"])],
    ),
    blocked("I18", "raising hard limits", &[refused(&["raise-limit"], &["EPERM"])]),
    virtualised(
        "I22",
        "zombies that no process reaps",
        &[Act::new(&["orphans", "200", "given-away"], Expect::Most(0))
            .without(&["orphans", "200", "kept"])],
    ),
    virtualised(
        "I23",
        "core dumps",
        &[Act::new(&["core-limit"], Expect::Note("dumped=false")).after("ulimit -c unlimited")],
    ),
];
