//! Classes J and O: lifecycle, and failures at start.

use crate::probe::{Class, Probe, not_applicable, scene};
use crate::scenes;

/// J: lifecycle.
pub(super) const LIVES: &[Probe] = &[
    scene(
        "J01",
        "a daemon, forked twice, that ignores signals",
        Class::Virtual,
        scenes::lives::daemon_control,
        scenes::lives::daemon,
    ),
    scene(
        "J02",
        "a program that stops itself",
        Class::Limited,
        scenes::lives::stopped_control,
        scenes::lives::stopped,
    ),
    scene(
        "J03",
        "killing the first process",
        Class::Virtual,
        scenes::lives::first_control,
        scenes::lives::first,
    ),
    scene(
        "J04",
        "forks that race the killer",
        Class::Virtual,
        scenes::lives::race_control,
        scenes::lives::race,
    ),
    scene(
        "J05",
        "a daemon that is a child subreaper",
        Class::Virtual,
        scenes::lives::adopter_control,
        scenes::lives::adopter,
    ),
    scene(
        "J07",
        "Stockade killed during a run",
        Class::Virtual,
        scenes::lives::killed_control,
        scenes::lives::killed,
    ),
    scene(
        "J09",
        "ends that a shell cannot distinguish",
        Class::Virtual,
        scenes::lives::ends_control,
        scenes::lives::ends,
    ),
    scene(
        "J10",
        "invalid timeouts",
        Class::Blocked,
        scenes::lives::times_control,
        scenes::lives::times,
    ),
    not_applicable("J13", "pausing and forking a sandbox", "this version has no sessions"),
    scene(
        "J14",
        "leftovers of all runs",
        Class::Virtual,
        scenes::leftovers::control,
        scenes::leftovers::play,
    ),
];

/// O: failing closed.
pub(super) const FAILING: &[Probe] = &[
    scene(
        "O01",
        "each system call of the wall refused",
        Class::Blocked,
        scenes::faults::harmless,
        scenes::faults::refused,
    ),
    scene(
        "O02",
        "approximate limits under limits.exact",
        Class::Blocked,
        scenes::faults::exact_control,
        scenes::faults::exact,
    ),
    scene(
        "O03",
        "policies with an unknown version or key",
        Class::Blocked,
        scenes::faults::policy_control,
        scenes::faults::policy,
    ),
    scene(
        "O05",
        "the first process killed between two steps",
        Class::Blocked,
        scenes::faults::harmless,
        scenes::faults::killed,
    ),
    scene(
        "O06",
        "no descriptors left when a sandbox starts",
        Class::Blocked,
        scenes::faults::descriptors_control,
        scenes::faults::descriptors,
    ),
    not_applicable("O07", "two servers on one state", "this version has no server"),
    scene(
        "O08",
        "a kernel without user namespaces, and one without Landlock",
        Class::Blocked,
        scenes::faults::harmless,
        scenes::faults::old_kernel,
    ),
];
