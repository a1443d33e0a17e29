//! P: tools of the host.

use crate::probe::{Class, Probe, blocked, refused, scene};
use crate::scenes::tools::{self, WITH_TOOLS};

/// A read-only mount refuses changes, and a mount cannot be renamed or renamed across.
const KEPT: &[&str] = &["EROFS", "EBUSY", "EXDEV", "EACCES"];

/// P: calling tools that the policy does not list, or answering in the host's place.
pub(super) const TOOLS: &[Probe] = &[
    blocked(
        "P01",
        "replacing the tool socket, command or directory",
        &[refused(&["tool-place", "/run/stockade"], KEPT)
            .without(&["tool-place", "{tree}/tools", "make"])
            .flags(WITH_TOOLS)],
    ),
    blocked(
        "P02",
        "mounting over the tools, and unmounting them",
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
        "tools that the policy does not list",
        Class::Blocked,
        tools::control,
        tools::unlisted,
    ),
    scene("P04", "malformed tool calls", Class::Blocked, tools::control, tools::lines),
    scene(
        "P05",
        "tools under a policy that lists none",
        Class::Blocked,
        tools::control,
        tools::none,
    ),
];
