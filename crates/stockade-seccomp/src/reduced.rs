//! Calls refused in addition to the built-in profile, on the reduced wall without namespaces.
//!
//! This profile is installed on top of the built-in one: the kernel applies the stricter result of
//! the two.

use super::{Action, Comparison, Condition, Profile, Rule, Syscall, Width};

const EPERM: Action = Action::Errno(1);
const EOPNOTSUPP: Action = Action::Errno(95);

/// Which user id the sandbox has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// A unique one: the kernel's permission checks protect files and processes of other users.
    Own,
    /// The caller's: the sandbox would have access to everything of the caller.
    Callers,
}

/// Calls that affect other processes of the host if there is no namespace.
///
/// - Sockets reach the network and programs of the host. A socket pair stays possible, see below.
/// - Queues and shared memory of System V and POSIX have one name space for the whole host.
/// - A watch reveals names in directories that cannot be listed; Landlock does not restrict it.
/// - Attributes and times of a file can be changed by any process with write permission by mode,
///   through its name or a read-only descriptor. Landlock restricts neither, landlock(7).
const SHARED_BY_ALL: &str = "
    socket connect bind listen accept accept4
    shmget shmat shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl
    mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
    inotify_init inotify_init1 inotify_add_watch
    utime utimes futimesat utimensat
    setxattr lsetxattr fsetxattr setxattrat
    removexattr lremovexattr fremovexattr removexattrat
";

/// Calls that reveal attributes of files that cannot be opened, if their names are guessed. They
/// fail as on a file system without attributes.
const ATTRIBUTES: &str = "
    getxattr lgetxattr fgetxattr getxattrat
    listxattr llistxattr flistxattr listxattrat
";

/// What the owner of a file may change in the same ways.
const OWNERS: &str = "
    chmod fchmod fchmodat fchmodat2 chown lchown fchown fchownat
    file_setattr
";

/// What a user may change about all of the user's processes: allowed only for the calling process.
/// The guest has the same user id, and no fixed process id here.
const OWN_PROCESS: [(&str, u8); 4] = [
    ("sched_setaffinity", 0),
    ("sched_setattr", 0),
    ("sched_setparam", 0),
    ("sched_setscheduler", 0),
];

/// `FS_IOC_SETFLAGS` in both widths, `FS_IOC_SETVERSION` in both, `FS_IOC_FSSETXATTR`.
const OWNERS_IOCTLS: [u64; 5] = [0x4008_6602, 0x4004_6602, 0x4008_7602, 0x4004_7602, 0x401c_5820];

const AF_UNIX: u64 = 1;
/// The bits of the socket type.
const SOCKET_TYPE: u64 = 0xf;
/// `SOCK_STREAM` and `SOCK_SEQPACKET`. A datagram pair could still send to an address.
const BOUND_TO_THEIR_PEER: [u64; 2] = [1, 5];

/// The profile to install on top of the built-in one.
pub fn reduced(ids: Ids) -> Profile {
    let mut profile = Profile { default: Action::Allow, rules: Default::default() };
    let mut add = |name: &str, rules: Vec<Rule>| {
        profile.rules.extend(Syscall::named(name).map(|syscall| (syscall, rules)));
    };
    for name in SHARED_BY_ALL.split_whitespace() {
        add(name, vec![Rule::always(EPERM)]);
    }
    for name in ATTRIBUTES.split_whitespace() {
        add(name, vec![Rule::always(EOPNOTSUPP)]);
    }
    let pair = |kind| {
        when(
            Action::Allow,
            [
                low(0, Comparison::Equal(AF_UNIX)),
                low(1, Comparison::MaskedEqual { mask: SOCKET_TYPE, value: kind }),
            ],
        )
    };
    let pairs = BOUND_TO_THEIR_PEER.map(pair).into_iter();
    add("socketpair", pairs.chain([Rule::always(EPERM)]).collect());
    for (name, argument) in OWN_PROCESS {
        add(name, vec![when(EPERM, [low(argument, Comparison::NotEqual(0))])]);
    }
    // `PRIO_PROCESS` is 0 and `IOPRIO_WHO_PROCESS` is 1.
    for (name, process) in [("setpriority", 0), ("ioprio_set", 1)] {
        let own = [low(0, Comparison::Equal(process)), low(1, Comparison::Equal(0))];
        add(name, vec![when(Action::Allow, own), Rule::always(EPERM)]);
    }
    if ids == Ids::Own {
        return profile;
    }
    for name in OWNERS.split_whitespace() {
        add(name, vec![Rule::always(EPERM)]);
    }
    let refuse = |request| when(EPERM, [low(1, Comparison::Equal(request))]);
    add("ioctl", OWNERS_IOCTLS.map(refuse).to_vec());
    profile
}

fn low(argument: u8, comparison: Comparison) -> Condition {
    Condition { argument, width: Width::Low32, comparison }
}

fn when<const N: usize>(action: Action, conditions: [Condition; N]) -> Rule {
    Rule { conditions: conditions.to_vec(), action }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Architecture, Call, Options, built_in, compile};

    fn answer(ids: Ids, name: &str, arguments: [u64; 3]) -> Action {
        let architecture = Architecture::X86_64;
        let number = Syscall::named(name).unwrap().number(architecture).unwrap();
        let [first, second, third] = arguments;
        let arguments = [first, second, third, 0, 0, 0];
        let call = Call { audit: architecture.audit(), number, arguments };
        let further = reduced(ids);
        let built_in = built_in(Options::default());
        let answers = [&built_in, &further].map(|it| it.evaluate(architecture, &call));
        answers.into_iter().min_by_key(|answer| answer.rank()).unwrap()
    }

    #[test]
    fn every_listed_name_is_a_call_that_the_built_in_profile_knows() {
        let built_in = built_in(Options::default());
        let lists = [SHARED_BY_ALL, ATTRIBUTES, OWNERS];
        for name in lists.into_iter().flat_map(str::split_whitespace) {
            let known = Syscall::named(name).is_some_and(|it| built_in.rules.contains_key(&it));
            assert!(known, "{name}");
        }
        for architecture in Architecture::ALL {
            for ids in [Ids::Own, Ids::Callers] {
                compile(&reduced(ids), architecture).unwrap();
            }
        }
    }

    #[test]
    fn only_connected_socket_pairs_can_be_created() {
        for ids in [Ids::Own, Ids::Callers] {
            for family in 0..64 {
                for kind in 0..16 {
                    assert!(!answer(ids, "socket", [family, kind, 0]).allows());
                    let pair = answer(ids, "socketpair", [family, kind | 0x80800, 0]);
                    let may = family == 1 && (kind == 1 || kind == 5);
                    assert_eq!(pair.allows(), may, "family {family}, type {kind}");
                }
            }
        }
    }

    #[test]
    fn scheduling_and_priority_of_other_processes_cannot_be_changed() {
        for ids in [Ids::Own, Ids::Callers] {
            for (name, argument) in OWN_PROCESS {
                let mut of_another = [0; 3];
                of_another[usize::from(argument)] = 4711;
                assert_eq!(answer(ids, name, [0; 3]), Action::Allow, "{name}");
                assert_eq!(answer(ids, name, of_another), EPERM, "{name}");
            }
            let nice = |which, who| answer(ids, "setpriority", [which, who, 0]);
            assert_eq!(
                [nice(0, 0), nice(0, 7), nice(1, 0), nice(2, 0)],
                [Action::Allow, EPERM, EPERM, EPERM]
            );
        }
    }

    #[test]
    fn files_of_the_caller_cannot_be_changed_with_the_callers_ids() {
        for name in OWNERS.split_whitespace().filter(|name| *name != "fchmodat2") {
            assert_eq!(answer(Ids::Callers, name, [0; 3]), EPERM, "{name}");
            assert_eq!(answer(Ids::Own, name, [0; 3]), Action::Allow, "{name}");
        }
        let flags = |high: u64| answer(Ids::Callers, "ioctl", [3, high | 0x4008_6602, 0]);
        assert_eq!([flags(0), flags(1 << 40)], [EPERM; 2]);
        assert_eq!(answer(Ids::Callers, "ioctl", [3, 0x5401, 0]), Action::Allow);
    }
}
