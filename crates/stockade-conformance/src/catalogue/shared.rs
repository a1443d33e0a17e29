//! Classes F, G and H: credentials, and what a process shares with others.

use crate::probe::{
    Act, Class, Expect, Probe, blocked, not_applicable, refused, scene, virtualised,
};
use crate::{checks, scenes};

/// F: namespaces, credentials, posture.
pub(super) const POSTURE: &[Probe] = &[
    scene(
        "F01",
        "namespaces and credentials of a running program, seen from outside",
        Class::Virtual,
        scenes::posture::control,
        scenes::posture::play,
    ),
    virtualised(
        "F02",
        "user namespaces inside",
        &[Act::new(
            &["read", "/proc/sys/user/max_user_namespaces"],
            Expect::Note("/proc/sys/user/max_user_namespaces: 0\n"),
        )],
    ),
    scene(
        "F03",
        "ids that no other sandbox and no account has",
        Class::Virtual,
        scenes::posture::ids_control,
        scenes::posture::ids,
    ),
    scene(
        "F04",
        "signals to every process",
        Class::Blocked,
        scenes::signals::every_process_control,
        scenes::signals::every_process,
    ),
    virtualised(
        "F06",
        "capabilities",
        &[Act::new(
            &["status", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"],
            Expect::Note(
                "CapInh=0000000000000000 CapPrm=0000000000000000 CapEff=0000000000000000 CapBnd=0000000000000000 CapAmb=0000000000000000",
            ),
        )],
    ),
    virtualised(
        "F07",
        "groups of the process that started Stockade",
        &[Act::new(&["status", "Groups"], Expect::Check(checks::no_group_of_root)).after(
            "[ $(id -u) = 0 ] && command -v setpriv >/dev/null && exec setpriv --groups 4,6 \"$@\"",
        )],
    ),
    virtualised(
        "F09",
        "session and terminal of the process that started Stockade",
        &[Act::new(&["session"], Expect::Note("leads=true terminal=false"))],
    ),
    virtualised(
        "F10",
        "working directory, user and umask of a program",
        &[Act::new(&["place"], Expect::Note("/workspace 1000:1000 022"))],
    ),
    not_applicable(
        "F12",
        "namespaces of another sandbox",
        "no option and no policy clause names another sandbox",
    ),
];

/// G: channels between processes.
pub(super) const CHANNELS: &[Probe] = &[
    blocked(
        "G01",
        "an abstract socket of the host",
        &[refused(&["abstract-socket", "{label}"], &["ECONNREFUSED", "EPERM"])],
    ),
    blocked(
        "G02",
        "sockets of the host by their path",
        &[refused(
            &[
                "socket-files",
                "{socket}",
                "/run/docker.sock",
                "/run/containerd/containerd.sock",
                "/run/dbus/system_bus_socket",
                "/tmp/.X11-unix/X0",
            ],
            &["ENOENT"],
        )],
    ),
    not_applicable("G03", "the gate's socket", "this version has no gate for the network"),
    blocked(
        "G05",
        "queues, semaphores and shared memory of the host",
        &[refused(&["find", "{label}", "{key}"], &["ENOENT"])],
    ),
    blocked(
        "G06",
        "keys that outlive a run",
        &[refused(&["call", "add_key"], &["ENOSYS", "EPERM"])],
    ),
    virtualised(
        "G07",
        "locks on files that every sandbox sees",
        &[Act::new(&["lock", "{locked}"], Expect::Check(checks::lock_is_own))],
    ),
    blocked(
        "G08",
        "vsock sockets to the hypervisor",
        &[refused(&["call", "vsock"], &["EAFNOSUPPORT"])],
    ),
    not_applicable(
        "G09",
        "the terminal of the process that started Stockade",
        "streams of `run` are pipes, and a session's terminal is one of its own devpts (D15)",
    ),
    scene(
        "G10",
        "signals to the process group of the process that started Stockade",
        Class::Virtual,
        scenes::signals::group_control,
        scenes::signals::group,
    ),
    scene(
        "G13",
        "temporary files and queues of another sandbox",
        Class::Virtual,
        scenes::neighbours::queues_control,
        scenes::neighbours::queues,
    ),
    not_applicable(
        "G14",
        "leftovers of a used sandbox in the next",
        "a sandbox is never used twice",
    ),
    scene(
        "G15",
        "a socket of the host in a directory that can be written",
        Class::Blocked,
        scenes::neighbours::socket_control,
        scenes::neighbours::socket,
    ),
    blocked(
        "G16",
        "a socket for another sandbox in a directory that both can write",
        &[refused(&["make-socket", "/out/socket"], &["EACCES"])
            .without(&["make-socket", "{tree}/socket"])
            .flags(&["--mount", "{writable}:/out:rw"])],
    ),
];

/// H: the network. The tests of the network gate cover all other ids.
pub(super) const NETWORK: &[Probe] = &[
    virtualised(
        "H01",
        "servers on the host's loopback",
        &[Act::new(&["loopback", "{port}"], Expect::Hidden)],
    ),
    virtualised("H02", "network interfaces", &[Act::new(&["interfaces"], Expect::Note("lo"))]),
];
