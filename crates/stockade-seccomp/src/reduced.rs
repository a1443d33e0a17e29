//! What is refused beside the built-in profile where no namespace holds it.
//!
//! It stands on top of the built-in profile and answers what that one allows: the kernel keeps the
//! stricter answer of the two.

use super::{Action, Comparison, Condition, Profile, Rule, Syscall, Width};

const EPERM: Action = Action::Errno(1);
const EOPNOTSUPP: Action = Action::Errno(95);

/// Whose user id the sandbox has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// One that nobody else has: what belongs to others is theirs by the kernel's own check.
    Own,
    /// The caller's: everything of the caller's would be the sandbox's too.
    Callers,
}

/// What reaches others without a namespace of one's own.
///
/// - Sockets lead to the network and to the host's own programs. A pair stays possible, see below.
/// - Queues and memory of System V and POSIX have one name space for the whole host.
/// - A watch tells names in directories that cannot be listed; Landlock does not see it.
/// - Attributes and times of a file change for whoever may write it by its mode, by its name or
///   behind a descriptor that only reads. Landlock sees neither, landlock(7).
const SHARED_BY_ALL: &str = "
    socket connect bind listen accept accept4
    shmget shmat shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl
    mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
    inotify_init inotify_init1 inotify_add_watch
    utime utimes futimesat utimensat
    setxattr lsetxattr fsetxattr setxattrat
    removexattr lremovexattr fremovexattr removexattrat
";

/// What tells of files that cannot be opened, for whoever guesses their names. Programs take the
/// answer for that of a file system without attributes.
const ATTRIBUTES: &str = "
    getxattr lgetxattr fgetxattr getxattrat
    listxattr llistxattr flistxattr listxattrat
";

/// What the owner of a file may change about it in the same ways.
const OWNERS: &str = "
    chmod fchmod fchmodat fchmodat2 chown lchown fchown fchownat
    file_setattr
";

/// What a user may change about any of the processes that are the user's: only about oneself. The
/// guest has the same user id whichever that is, and no fixed process id here.
const OWN_PROCESS: [(&str, u8); 4] = [
    ("sched_setaffinity", 0),
    ("sched_setattr", 0),
    ("sched_setparam", 0),
    ("sched_setscheduler", 0),
];

/// `FS_IOC_SETFLAGS` in both widths, `FS_IOC_SETVERSION` in both, `FS_IOC_FSSETXATTR`.
const OWNERS_IOCTLS: [u64; 5] = [0x4008_6602, 0x4004_6602, 0x4008_7602, 0x4004_7602, 0x401c_5820];

const AF_UNIX: u64 = 1;
/// The kernel takes the type from these bits.
const SOCKET_TYPE: u64 = 0xf;
/// `SOCK_STREAM` and `SOCK_SEQPACKET`. A pair of the datagram kind could still send to an address.
const BOUND_TO_THEIR_PEER: [u64; 2] = [1, 5];

/// The profile that is put on top of the built-in one.
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
    fn no_socket_is_made_but_pairs_that_reach_nobody_else() {
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
    fn scheduling_and_priority_of_other_processes_are_left_alone() {
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
    fn what_belongs_to_the_caller_is_left_alone_where_the_ids_are_the_callers() {
        for name in OWNERS.split_whitespace().filter(|name| *name != "fchmodat2") {
            assert_eq!(answer(Ids::Callers, name, [0; 3]), EPERM, "{name}");
            assert_eq!(answer(Ids::Own, name, [0; 3]), Action::Allow, "{name}");
        }
        let flags = |high: u64| answer(Ids::Callers, "ioctl", [3, high | 0x4008_6602, 0]);
        assert_eq!([flags(0), flags(1 << 40)], [EPERM; 2]);
        assert_eq!(answer(Ids::Callers, "ioctl", [3, 0x5401, 0]), Action::Allow);
    }
}
