//! Calls that are allowed depending on their arguments.
//!
//! Most of these arguments are `int` or `unsigned int` in the kernel, which ignores the high half
//! of the register. The filter compares them as 32 bits; otherwise a caller could set that half to
//! bypass it.

use super::{EPERM, ExecutableMemfd};
use crate::{Action, Comparison, Condition, Rule, Width};

const EAFNOSUPPORT: Action = Action::Errno(97);
const EPROTONOSUPPORT: Action = Action::Errno(93);

/// `CLONE_NEWNS`, `NEWCGROUP`, `NEWUTS`, `NEWIPC`, `NEWUSER`, `NEWPID` and `NEWNET`. `NEWTIME`
/// shares its bits with the exit signal in clone(2) and cannot be requested there.
const NEW_NAMESPACES: u64 = 0x7e02_0000;
/// `CLONE_FS`, `CLONE_FILES` and `CLONE_SYSVSEM`.
const UNSHARED_FREELY: u64 = 0x0004_0600;

const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const AF_NETLINK: u64 = 16;
const NETLINK_ROUTE: u64 = 0;
/// The bits of the socket type; `SOCK_CLOEXEC` and `SOCK_NONBLOCK` are above them.
const SOCKET_TYPE: u64 = 0xf;
const SOCK_RAW: u64 = 3;
const SOCK_PACKET: u64 = 10;

/// The default protocol of the type, `IPPROTO_TCP` and `IPPROTO_UDP`. Others, such as MPTCP and
/// SCTP, would expose more of the kernel, and the gate does not relay them.
const PROTOCOLS: [u64; 3] = [0, 6, 17];

/// `TIOCSTI` injects input into a terminal, `TIOCLINUX` into a console, `TIOCCONS` redirects the
/// console's output, and `TIOCSETD` loads line disciplines of the kernel.
const TERMINAL_TAKEOVERS: [u64; 4] = [0x5412, 0x541c, 0x541d, 0x5423];

/// 64-bit and 32-bit Linux, each also with `UNAME26`, and the query of the current value.
const PERSONALITIES: [u64; 5] = [0, 8, 0x20000, 0x20008, 0xffff_ffff];

/// The limit is 1, which suppresses core dumps also to a piped handler of the host; at 0 the kernel
/// would feed that handler, core(5). So lowering the limit to 0 reports success without effect.
const RLIMIT_CORE: u64 = 4;
const TAKEN_AS_DONE: Action = Action::Errno(0);

const ARCH_SET_CPUID: u64 = 0x1012;
const MFD_NOEXEC_SEAL: u64 = 0x8;
const MFD_EXEC: u64 = 0x10;

/// The guest is the first process of its pid namespace, and the leader of its group. A program must
/// not starve it, because it would then report an end too late.
const GUEST: u64 = 1;
const SCHEDULING: [&str; 4] =
    ["sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"];
/// Each with the value that selects every process of a user, `PRIO_USER` and `IOPRIO_WHO_USER`.
const PRIORITIES: [(&str, u64); 2] = [("setpriority", 2), ("ioprio_set", 3)];

/// `F_SETLEASE` lets a reader delay host processes that open the file for writing, and `F_NOTIFY`
/// watches a directory that other processes also use.
const FOREIGN_FILES: [u64; 2] = [1024, 1026];

/// `S_ISUID` and `S_ISGID`. In a writable mount such a file belongs to the caller on the host, and
/// a host user who starts it would run as the caller.
const SET_ID: [u64; 2] = [0o4000, 0o2000];
/// The index of the mode argument of each call that creates or changes a file. mkdir(2) ignores
/// these bits.
const MODES: [(&str, u8); 7] = [
    ("chmod", 1),
    ("fchmod", 1),
    ("fchmodat", 2),
    ("fchmodat2", 2),
    ("creat", 1),
    ("mknod", 1),
    ("mknodat", 2),
];
/// `O_CREAT` and the distinct bit of `O_TMPFILE`: without either, open(2) ignores the mode.
const MAKES_A_FILE: [u64; 2] = [0o100, 0o20_000_000];

/// The rules of each of these calls; the profile's default refuses what no rule matches.
pub(super) fn rules(executable_memfd: ExecutableMemfd) -> Vec<(&'static str, Vec<Rule>)> {
    let own = || low(0, Comparison::Equal(0));
    let mut rules = vec![
        ("clone", vec![when(Action::Allow, [low(0, without(NEW_NAMESPACES))])]),
        ("unshare", vec![when(Action::Allow, [whole(0, without(!UNSHARED_FREELY))])]),
        ("socket", socket()),
        // The guest has the same user id, so a process may change only its own limits.
        (
            "prlimit64",
            vec![
                when(Action::Allow, [own(), whole(2, Comparison::Equal(0))]),
                when(Action::Allow, [own(), low(1, Comparison::NotEqual(RLIMIT_CORE))]),
                // Refuses a caller that also requests the old limit: a call that the filter answers
                // returns no data.
                when(TAKEN_AS_DONE, [own(), whole(3, Comparison::Equal(0))]),
            ],
        ),
        (
            "setrlimit",
            vec![
                when(TAKEN_AS_DONE, [low(0, Comparison::Equal(RLIMIT_CORE))]),
                Rule::always(Action::Allow),
            ],
        ),
        ("fcntl", fcntl()),
        (
            "socketpair",
            vec![
                when(Action::Allow, [low(0, Comparison::Equal(AF_UNIX))]),
                Rule::always(EAFNOSUPPORT),
            ],
        ),
        ("ioctl", all_but(1, &TERMINAL_TAKEOVERS)),
        ("arch_prctl", all_but(0, &[ARCH_SET_CPUID])),
        ("personality", PERSONALITIES.map(|one| allow_equal(0, one)).to_vec()),
        // Also with an empty path and a descriptor: execve(2) on `/proc/self/fd` has the same
        // effect, and Landlock and the file's permissions apply to both.
        ("execveat", vec![Rule::always(Action::Allow)]),
        ("open", open(1)),
        ("openat", open(2)),
    ];
    let plain =
        |argument| vec![when(Action::Allow, [low(argument, without(SET_ID[0] | SET_ID[1]))])];
    rules.extend(MODES.map(|(name, argument)| (name, plain(argument))));
    rules.extend(SCHEDULING.map(|name| (name, all_but(0, &[GUEST]))));
    rules.extend(PRIORITIES.map(|(name, every)| (name, priority(every))));
    match executable_memfd {
        ExecutableMemfd::Allowed => {
            rules.push(("memfd_create", vec![Rule::always(Action::Allow)]));
        }
        ExecutableMemfd::Refused => {
            let mask = MFD_EXEC | MFD_NOEXEC_SEAL;
            let sealed = Comparison::MaskedEqual { mask, value: MFD_NOEXEC_SEAL };
            rules.push(("memfd_create", vec![when(Action::Allow, [low(1, sealed)])]));
        }
    }
    rules
}

fn fcntl() -> Vec<Rule> {
    let refused = FOREIGN_FILES.map(|command| when(EPERM, [low(1, Comparison::Equal(command))]));
    refused.into_iter().chain([Rule::always(Action::Allow)]).collect()
}

fn socket() -> Vec<Rule> {
    let family = |family| low(0, Comparison::Equal(family));
    let kind = |value| low(1, Comparison::MaskedEqual { mask: SOCKET_TYPE, value });
    // Before the refusal of raw sockets: getifaddrs(3) opens a raw netlink socket.
    let route = low(2, Comparison::Equal(NETLINK_ROUTE));
    let mut rules = vec![when(Action::Allow, [family(AF_NETLINK), route])];
    for allowed in [AF_INET, AF_INET6, AF_UNIX] {
        rules.push(when(EPERM, [family(allowed), kind(SOCK_RAW)]));
        rules.push(when(EPERM, [family(allowed), kind(SOCK_PACKET)]));
    }
    rules.push(when(Action::Allow, [family(AF_UNIX)]));
    for internet in [AF_INET, AF_INET6] {
        let protocol = |it| low(2, Comparison::Equal(it));
        rules.extend(PROTOCOLS.map(|it| when(Action::Allow, [family(internet), protocol(it)])));
        rules.push(when(EPROTONOSUPPORT, [family(internet)]));
    }
    rules.push(Rule::always(EAFNOSUPPORT));
    rules
}

/// Rules for opening a file, with the flags at this argument and the mode at the next.
fn open(flags: u8) -> Vec<Rule> {
    let has = |argument, bit| low(argument, Comparison::MaskedEqual { mask: bit, value: bit });
    let refused = MAKES_A_FILE
        .iter()
        .flat_map(|&makes| SET_ID.map(|bit| when(EPERM, [has(flags, makes), has(flags + 1, bit)])));
    refused.chain([Rule::always(Action::Allow)]).collect()
}

/// Rules for setting a priority: the kind of target, and the id of the process, group or user.
fn priority(every_process: u64) -> Vec<Rule> {
    vec![
        when(EPERM, [low(0, Comparison::Equal(every_process))]),
        when(EPERM, [low(1, Comparison::Equal(GUEST))]),
        Rule::always(Action::Allow),
    ]
}

fn all_but(argument: u8, refused: &[u64]) -> Vec<Rule> {
    let refuse = |&value| when(EPERM, [low(argument, Comparison::Equal(value))]);
    let mut rules: Vec<Rule> = refused.iter().map(refuse).collect();
    rules.push(Rule::always(Action::Allow));
    rules
}

fn allow_equal(argument: u8, value: u64) -> Rule {
    when(Action::Allow, [low(argument, Comparison::Equal(value))])
}

fn without(mask: u64) -> Comparison {
    Comparison::MaskedEqual { mask, value: 0 }
}

fn low(argument: u8, comparison: Comparison) -> Condition {
    Condition { argument, width: Width::Low32, comparison }
}

fn whole(argument: u8, comparison: Comparison) -> Condition {
    Condition { argument, width: Width::Whole, comparison }
}

fn when<const N: usize>(action: Action, conditions: [Condition; N]) -> Rule {
    Rule { conditions: conditions.to_vec(), action }
}
