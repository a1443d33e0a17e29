//! P: tools of the host.

use crate::probe::{Class, Probe, blocked, refused, scene};
use crate::scenes::tools::{self, WITH_TOOLS};

/// Nothing in a read-only mount is changed, and no mount is moved or left by a rename.
const KEPT: &[&str] = &["EROFS", "EBUSY", "EXDEV", "EACCES"];

/// P: to call what is not listed, or to answer in the host's place.
pub(super) const TOOLS: &[Probe] = &[
    blocked(
        "P01",
        "another socket, command or directory in the place of the tools'",
        &[refused(&["tool-place", "/run/stockade"], KEPT)
            .without(&["tool-place", "{tree}/tools", "make"])
            .flags(WITH_TOOLS)],
    ),
    blocked(
        "P02",
        "a mount over the tools, and theirs taken away",
        &[
            refused(&["mount", "tmpfs", "/run/stockade"], &["EPERM"])
                .without(&["apart-mount", "tmpfs", "{tree}/directory"])
                .flags(WITH_TOOLS),
            refused(&["mount", "remount", "/run/stockade"], &["EPERM"])
                .without(&["apart-mount", "remount", "/proc"])
                .flags(WITH_TOOLS),
            refused(&["mount", "umount", "/run/stockade"], &["EPERM"])
                .without(&["apart-mount", "umount", "/proc"])
                .flags(WITH_TOOLS),
        ],
    ),
    scene(
        "P03",
        "tools that are not listed, by their names",
        Class::Blocked,
        tools::control,
        tools::unlisted,
    ),
    scene("P04", "lines that are no calls", Class::Blocked, tools::control, tools::lines),
    scene("P05", "tools where none are listed", Class::Blocked, tools::control, tools::none),
];
