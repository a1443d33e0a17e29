use super::*;
use crate::{Architecture, Call};

const ENOSYS_ACTION: Action = Action::Errno(ENOSYS);
const EAFNOSUPPORT: Action = Action::Errno(97);

fn answer(options: Options, name: &str, arguments: [u64; 6]) -> Action {
    let architecture = Architecture::X86_64;
    let number = Syscall::named(name).unwrap().number(architecture).unwrap();
    let call = Call { audit: architecture.audit(), number, arguments };
    built_in(options).evaluate(architecture, &call)
}

fn with(name: &str, arguments: [u64; 3]) -> Action {
    let [first, second, third] = arguments;
    answer(Options::default(), name, [first, second, third, 0, 0, 0])
}

#[test]
fn every_listed_name_is_a_call() {
    let lists = allowed::GROUPS.into_iter().chain([UNKNOWN_HERE]);
    let unknown: Vec<&str> = lists
        .flat_map(str::split_whitespace)
        .chain(conditional::rules(ExecutableMemfd::Allowed).iter().map(|(name, _)| *name))
        .filter(|name| Syscall::named(name).is_none())
        .collect();
    assert_eq!(unknown, Vec::<&str>::new());
}

#[test]
fn no_name_is_listed_twice() {
    let lists = allowed::GROUPS.into_iter().chain([UNKNOWN_HERE]);
    let mut names: Vec<&str> = lists.flat_map(str::split_whitespace).collect();
    names.extend(conditional::rules(ExecutableMemfd::Allowed).iter().map(|(name, _)| *name));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn core_dump_limit_is_kept_and_lowering_it_reports_success() {
    const CORE: u64 = 4;
    const OPEN_FILES: u64 = 7;
    let (ask, set) = (0, 0x7fff_0000_1000);
    let kept = Action::Errno(0);
    assert_eq!(with("prlimit64", [0, CORE, set]), kept);
    assert_eq!(with("prlimit64", [0, CORE | 1 << 32, set]), kept);
    assert_eq!(with("setrlimit", [CORE, set, 0]), kept);
    assert_eq!(with("prlimit64", [0, CORE, ask]), Action::Allow);
    assert_eq!(with("prlimit64", [0, OPEN_FILES, set]), Action::Allow);
    assert_eq!(with("setrlimit", [OPEN_FILES, set, 0]), Action::Allow);
    assert_eq!(with("prlimit64", [1, CORE, set]), EPERM);
    // A call that also requests the old limit fails.
    let exchange = |new| answer(Options::default(), "prlimit64", [0, CORE, new, set, 0, 0]);
    assert_eq!([exchange(set), exchange(0)], [EPERM, Action::Allow]);
}

#[test]
fn scheduling_and_priority_of_the_guest_cannot_be_changed() {
    for name in ["sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"] {
        let on = |pid| with(name, [pid, 0, 0]);
        assert_eq!([on(0), on(7)], [Action::Allow; 2], "{name}: libraries name their own threads");
        assert_eq!([on(1), on(1 | 1 << 32)], [EPERM; 2], "{name}");
    }
    for (name, [process, group, user]) in [("setpriority", [0, 1, 2]), ("ioprio_set", [1, 2, 3])] {
        let set = |which, who| with(name, [which, who, 0]);
        assert_eq!([set(process, 0), set(process, 7), set(group, 0)], [Action::Allow; 3], "{name}");
        assert_eq!([set(process, 1), set(group, 1)], [EPERM; 2], "{name}");
        assert_eq!([set(user, 0), set(user, 1000), set(user | 1 << 32, 0)], [EPERM; 3], "{name}");
    }
}

#[test]
fn calls_without_use_inside_are_refused() {
    let refused = "
        setns mount umount2 pivot_root chroot mount_setattr
        ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp process_madvise
        process_mrelease memfd_secret vmsplice mbind move_pages set_mempolicy migrate_pages
        set_mempolicy_home_node
        bpf perf_event_open userfaultfd fanotify_init fanotify_mark open_by_handle_at
        name_to_handle_at lookup_dcookie syslog quotactl quotactl_fd acct swapon swapoff reboot
        kexec_load kexec_file_load init_module finit_module delete_module iopl ioperm modify_ldt
        nfsservctl vhangup uselib ustat sysfs _sysctl
        clock_settime clock_adjtime adjtimex settimeofday sethostname setdomainname
        lsm_get_self_attr lsm_set_self_attr lsm_list_modules
    ";
    for name in refused.split_whitespace() {
        assert_eq!(with(name, [0; 3]), EPERM, "{name}");
    }
}

#[test]
fn calls_with_a_fallback_return_enosys() {
    let missing = "
        clone3 openat2 io_uring_setup io_uring_enter io_uring_register keyctl add_key request_key
        fsopen fsconfig fsmount fspick open_tree open_tree_attr move_mount
    ";
    for name in missing.split_whitespace() {
        assert_eq!(with(name, [0; 3]), ENOSYS_ACTION, "{name}");
    }
}

#[test]
fn calls_that_safe_programs_rely_on_are_allowed() {
    let allowed = "
        landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp prctl openat
        statx faccessat2 fchmodat2 close_range pidfd_open pidfd_send_signal rseq membarrier
        memfd_create getrandom futex futex_wait futex_wake futex_waitv futex_requeue epoll_pwait2
        copy_file_range mseal map_shadow_stack restart_syscall rt_sigreturn
    ";
    for name in allowed.split_whitespace() {
        assert_eq!(with(name, [0; 3]), Action::Allow, "{name}");
    }
}

#[test]
fn set_user_id_and_set_group_id_bits_cannot_be_set() {
    let places = [
        ("chmod", 1),
        ("fchmod", 1),
        ("fchmodat", 2),
        ("fchmodat2", 2),
        ("creat", 1),
        ("mknod", 1),
    ];
    for (name, place) in places {
        for (mode, expected) in [(0o1777, Action::Allow), (0o4755, EPERM), (0o102_755, EPERM)] {
            let mut arguments = [0; 3];
            arguments[place] = mode;
            assert_eq!(with(name, arguments), expected, "{name} {mode:o}");
        }
    }
    let (create, temporary) = (0o102, 0o20_200_002);
    for flags in [create, temporary] {
        assert_eq!(with("open", [0, flags, 0o644]), Action::Allow);
        assert_eq!(with("open", [0, flags, 0o4644]), EPERM);
        let openat = |mode| answer(Options::default(), "openat", [0, 0, flags, mode, 0, 0]);
        assert_eq!((openat(0o666), openat(0o2666)), (Action::Allow, EPERM));
    }
    // Without file creation the mode argument can be any value.
    assert_eq!(with("open", [0, 0, 0o7777]), Action::Allow);
}

#[test]
fn threads_and_forks_are_allowed_and_new_namespaces_are_not() {
    let thread = 0x003d_0f00;
    assert_eq!(with("clone", [thread, 0, 0]), Action::Allow);
    assert_eq!(with("clone", [17, 0, 0]), Action::Allow);
    for namespace in [25, 26, 27, 28, 29, 30, 17] {
        assert_eq!(with("clone", [17 | 1 << namespace, 0, 0]), EPERM, "bit {namespace}");
        assert_eq!(with("unshare", [1 << namespace, 0, 0]), EPERM, "bit {namespace}");
    }
    assert_eq!(with("unshare", [0x80, 0, 0]), EPERM, "a time namespace");
    assert_eq!(with("unshare", [0x0004_0600, 0, 0]), Action::Allow);
}

#[test]
fn only_ordinary_sockets_are_made() {
    let cloexec_nonblock = 0x80800;
    for family in 0..64 {
        for kind in 0..16 {
            let answer = with("socket", [family, kind | cloexec_nonblock, 0]);
            let expected = match (family, kind) {
                (1 | 2 | 10, 3 | 10) => EPERM,
                (1 | 2 | 10 | 16, _) => Action::Allow,
                _ => EAFNOSUPPORT,
            };
            assert_eq!(answer, expected, "family {family}, type {kind}");
        }
        let pair = if family == 1 { Action::Allow } else { EAFNOSUPPORT };
        assert_eq!(with("socketpair", [family, 1, 0]), pair, "family {family}");
    }
    for protocol in 1..32 {
        assert_eq!(with("socket", [16, 3, protocol]), EAFNOSUPPORT, "netlink {protocol}");
    }
    for family in [2, 10] {
        for protocol in [0, 1, 6, 17, 33, 58, 132, 136, 262] {
            let answer = match protocol {
                0 | 6 | 17 => Action::Allow,
                _ => Action::Errno(93),
            };
            assert_eq!(with("socket", [family, 1, protocol]), answer, "{family}, {protocol}");
        }
    }
}

#[test]
fn high_half_of_a_32_bit_argument_is_ignored() {
    let high = 0x7fff_ffff_0000_0000;
    assert_eq!(with("ioctl", [0, 0x5401, 0]), Action::Allow);
    for takeover in [0x5412, 0x541c, 0x541d, 0x5423] {
        assert_eq!(with("ioctl", [0, takeover, 0]), EPERM);
        assert_eq!(with("ioctl", [0, takeover | high, 0]), EPERM);
    }
    assert_eq!(with("socket", [40 | high, 1, 0]), EAFNOSUPPORT);
    assert_eq!(with("socket", [2 | high, 3 | high, 0]), EPERM);
    assert_eq!(with("clone", [1 << 28 | high, 0, 0]), EPERM);
    assert_eq!(with("personality", [0x0040_0000 | high, 0, 0]), EPERM);
}

#[test]
fn only_harmless_personalities_are_allowed() {
    for allowed in [0, 8, 0x20000, 0x20008, 0xffff_ffff] {
        assert_eq!(with("personality", [allowed, 0, 0]), Action::Allow);
    }
    for refused in [1, 0x0040_0000, 0x0004_0000, 0xffff_fffe] {
        assert_eq!(with("personality", [refused, 0, 0]), EPERM);
    }
    assert_eq!(with("arch_prctl", [0x1002, 0, 0]), Action::Allow);
    assert_eq!(with("arch_prctl", [0x1012, 0, 0]), EPERM);
}

#[test]
fn executable_memory_files_are_refused_only_on_request() {
    let refused = Options { executable_memfd: ExecutableMemfd::Refused, ..Options::default() };
    let memfd = |flags| answer(refused, "memfd_create", [0, flags, 0, 0, 0, 0]);
    assert_eq!([memfd(0), memfd(1), memfd(0x10), memfd(0x18)], [EPERM; 4]);
    assert_eq!([memfd(8), memfd(8 | 3)], [Action::Allow; 2]);
    assert_eq!(with("memfd_create", [0, 0x10, 0]), Action::Allow);
}

#[test]
fn debugging_adds_ptrace_and_nothing_else() {
    let debug = Options { tracing: Tracing::Allowed, ..Options::default() };
    let mut without = built_in(debug);
    let added = without.rules.remove(&Syscall::named("ptrace").unwrap());
    assert_eq!(added, Some(vec![Rule::always(Action::Allow)]));
    assert_eq!(without, built_in(Options::default()));
}
