//! Refuses one system call of each step that builds the native wall.

use std::process::Command;

use libc::{EINVAL, EMFILE, ENOSPC, ENOSYS, EPERM};
use stockade_testing::not_run;

use crate::leftovers::{Host, walls_can_be_built};
use crate::refusing::{CALLER, Marked, Refused, finish, finish_refusing, upper};

/// Which users make the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Anybody,
    Root,
}

/// A refused call, and the error that it must cause.
struct Case {
    what: &'static str,
    by: By,
    refused: Refused,
    /// The name of the step in the error message.
    says: &'static str,
}

const fn case(
    what: &'static str,
    by: By,
    call: libc::c_long,
    when: &'static [(u32, u32, u32)],
    errno: i32,
    says: &'static str,
) -> Case {
    Case { what, by, refused: Refused { call, when, errno }, says }
}

const ALL: u32 = u32::MAX;
const NEW_USER: u32 = libc::CLONE_NEWUSER as u32;
const NEW_MOUNTS: u32 = libc::CLONE_NEWNS as u32;

/// Options of prctl(2).
const PARENT_DEATH_SIGNAL: &[(u32, u32, u32)] = &[(0, ALL, 1)];
const DUMPABLE: &[(u32, u32, u32)] = &[(0, ALL, 4)];
const KEEP_CAPABILITIES: &[(u32, u32, u32)] = &[(0, ALL, 8)];
const DROP_FROM_BOUNDING_SET: &[(u32, u32, u32)] = &[(0, ALL, 24)];
const NO_NEW_PRIVS: &[(u32, u32, u32)] = &[(0, ALL, 38)];
const AMBIENT: &[(u32, u32, u32)] = &[(0, ALL, 47)];

/// Attributes of fsmount(2): MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV and MOUNT_ATTR_NOEXEC.
const NO_SUID: u32 = 2;
const NO_DEVICES: u32 = 4;
const NO_EXECUTION: u32 = 8;

/// The guest's executable is loaded below 4 GiB, so the upper half of its pointers is zero.
/// Pointers of other executables are above 4 GiB.
const OF_THE_GUEST_1: (u32, u32, u32) = (upper(1), ALL, 0);

/// The guest's code is below 4 GiB too, so the upper half of the call's address is zero.
const BY_THE_GUEST: (u32, u32, u32) = (CALLER, ALL, 0);

/// The first two-byte write of the guest's executable sets max_user_namespaces to 0.
const NO_MORE: &[(u32, u32, u32)] = &[OF_THE_GUEST_1, (2, ALL, 2)];

/// Every step of a start, in order.
const CASES: &[Case] = &[
    case(
        "the guest's file",
        By::Anybody,
        libc::SYS_memfd_create,
        &[],
        EMFILE,
        "the in-memory file",
    ),
    case(
        "the guest's seals",
        By::Anybody,
        libc::SYS_fcntl,
        &[(1, ALL, 1033)],
        EPERM,
        "seal the in-memory file",
    ),
    case("a range of ids", By::Root, libc::SYS_bind, &[], EPERM, "range of uids"),
    case(
        "closing what was inherited",
        By::Anybody,
        libc::SYS_close_range,
        &[(2, ALL, 0)],
        ENOSYS,
        "take_control",
    ),
    case("a session for the launcher", By::Anybody, libc::SYS_setsid, &[], ENOSYS, "stand_apart"),
    case(
        "a session for the launcher, as if it had one",
        By::Anybody,
        libc::SYS_setsid,
        &[],
        EPERM,
        "stand_apart",
    ),
    case(
        "a namespace of owners",
        By::Root,
        libc::SYS_clone,
        &[(0, NEW_USER | NEW_MOUNTS, NEW_USER)],
        EPERM,
        "take_owned_tree",
    ),
    case("cgroups of its own", By::Anybody, libc::SYS_unshare, &[], EPERM, "own_cgroups"),
    case("private mounts", By::Anybody, libc::SYS_mount, &[], EPERM, "private_mounts"),
    case("a copy of a tree", By::Anybody, libc::SYS_open_tree, &[], EPERM, "tree"),
    case("a tree's attributes", By::Anybody, libc::SYS_mount_setattr, &[], EINVAL, "tree"),
    case("paths without links", By::Anybody, libc::SYS_openat2, &[], ENOSYS, "tree"),
    case("giving up groups", By::Root, libc::SYS_setgroups, &[], EPERM, "become_user"),
    case(
        "keeping capabilities",
        By::Anybody,
        libc::SYS_prctl,
        KEEP_CAPABILITIES,
        EPERM,
        "become_user",
    ),
    case("the group id", By::Anybody, libc::SYS_setresgid, &[], EPERM, "become_user"),
    case("the user id", By::Anybody, libc::SYS_setresuid, &[], EPERM, "become_user"),
    case("effective capabilities", By::Anybody, libc::SYS_capset, &[], EPERM, "become_user"),
    case("a file system", By::Anybody, libc::SYS_fsopen, &[], EPERM, "make_scratch"),
    case("its settings", By::Anybody, libc::SYS_fsconfig, &[], EINVAL, "make_scratch"),
    case("its mount", By::Anybody, libc::SYS_fsmount, &[], EPERM, "make_scratch"),
    case("attaching it", By::Anybody, libc::SYS_move_mount, &[], EPERM, "make_scratch"),
    case("making a directory", By::Anybody, libc::SYS_mkdirat, &[], EPERM, "make_root"),
    case("a link", By::Anybody, libc::SYS_symlinkat, &[], EPERM, "link"),
    case(
        "the sandbox's /proc",
        By::Anybody,
        libc::SYS_fsmount,
        &[(2, ALL, NO_SUID | NO_DEVICES | NO_EXECUTION)],
        EPERM,
        "proc",
    ),
    case(
        "terminals",
        By::Anybody,
        libc::SYS_fsmount,
        &[(2, ALL, NO_SUID | NO_EXECUTION)],
        EPERM,
        "terminals",
    ),
    case(
        "no more user namespaces",
        By::Anybody,
        libc::SYS_write,
        NO_MORE,
        EPERM,
        "forbid_user_namespaces",
    ),
    case("the pivot", By::Anybody, libc::SYS_pivot_root, &[], EPERM, "pivot"),
    case("going to the new root", By::Anybody, libc::SYS_fchdir, &[], EPERM, "pivot"),
    case("letting the old root go", By::Anybody, libc::SYS_umount2, &[], EPERM, "pivot"),
    case(
        "a read-only root",
        By::Anybody,
        libc::SYS_mount_setattr,
        &[(2, 0x8000, 0)],
        EPERM,
        "seal_root",
    ),
    case(
        "asking for the loopback interface",
        By::Anybody,
        libc::SYS_ioctl,
        &[(1, ALL, 0x8913)],
        EPERM,
        "loopback",
    ),
    case(
        "the loopback interface",
        By::Anybody,
        libc::SYS_ioctl,
        &[(1, ALL, 0x8914)],
        EPERM,
        "loopback",
    ),
    case("the host name", By::Anybody, libc::SYS_sethostname, &[], EPERM, "host_name"),
    case("core dumps", By::Anybody, libc::SYS_prlimit64, &[(1, ALL, 4)], EPERM, "limit"),
    case("message queues", By::Anybody, libc::SYS_prlimit64, &[(1, ALL, 12)], EPERM, "limit"),
    case("being dumpable", By::Anybody, libc::SYS_prctl, DUMPABLE, EPERM, "seal_root"),
    case(
        "the bounding set",
        By::Anybody,
        libc::SYS_prctl,
        DROP_FROM_BOUNDING_SET,
        EPERM,
        "seal_privileges",
    ),
    case(
        "the bounding set, as if it were empty",
        By::Anybody,
        libc::SYS_prctl,
        DROP_FROM_BOUNDING_SET,
        EINVAL,
        "seal_privileges",
    ),
    case("ambient capabilities", By::Anybody, libc::SYS_prctl, AMBIENT, EPERM, "seal_privileges"),
    case("no new privileges", By::Anybody, libc::SYS_prctl, NO_NEW_PRIVS, EPERM, "seal_privileges"),
    case(
        "dying with the launcher",
        By::Anybody,
        libc::SYS_prctl,
        PARENT_DEATH_SIGNAL,
        EPERM,
        "die_with_parent",
    ),
    case(
        "Landlock's rules",
        By::Anybody,
        libc::SYS_landlock_create_ruleset,
        &[(2, ALL, 0)],
        EPERM,
        "landlock",
    ),
    case("a rule of Landlock", By::Anybody, libc::SYS_landlock_add_rule, &[], EPERM, "landlock"),
    case("Landlock", By::Anybody, libc::SYS_landlock_restrict_self, &[], EPERM, "landlock"),
    case("the system-call filter", By::Anybody, libc::SYS_seccomp, &[], EPERM, "seccomp"),
    case(
        "what the program inherits",
        By::Anybody,
        libc::SYS_close_range,
        &[(2, 4, 4)],
        EPERM,
        "serve",
    ),
];

/// Stockade creates the first process with clone, or with clone3 into a cgroup of version 2. An
/// ordinary program start falls back from clone3 to clone.
const CLONES: [Refused; 2] = [
    Refused { call: libc::SYS_clone, when: &[(0, NEW_MOUNTS, NEW_MOUNTS)], errno: ENOSPC },
    Refused { call: libc::SYS_clone3, when: &[], errno: ENOSYS },
];

/// The guest's execve of the program.
const PROGRAM: Refused = Refused { call: libc::SYS_execve, when: &[BY_THE_GUEST], errno: EPERM };

/// Writes to kernel files, distinguished by their length: the memory limit and an id map.
const MEMORY_LIMIT: Refused = refused_write(&[(2, ALL, 9)], EINVAL);
const ID_MAP: Refused = refused_write(&[(2, ALL, 19)], EPERM);

const fn refused_write(when: &'static [(u32, u32, u32)], errno: i32) -> Refused {
    Refused { call: libc::SYS_write, when, errno }
}

/// Starts the marked command under refused calls and returns what is wrong with its result.
fn wrongs(host: &Host, marked: &Marked, refused: &[Refused], says: &str) -> Vec<String> {
    wrongs_of(host, marked, marked.command(), refused, says)
}

/// The same for another command that creates the mark file.
pub(crate) fn wrongs_of(
    host: &Host,
    marked: &Marked,
    command: Command,
    refused: &[Refused],
    says: &str,
) -> Vec<String> {
    let run = finish_refusing(command, refused);
    let mut wrong = Vec::new();
    let remedy = run.stderr.lines().any(|line| line.starts_with("  = ") && line.len() > 12);
    let named = run.stderr.lines().next().is_some_and(|line| line.contains(says));
    if run.code != Some(125) || !run.stdout.is_empty() || !named || !remedy {
        wrong.push(format!("{run:?}"));
    }
    if marked.is_marked() {
        wrong.push("the program ran".to_owned());
        marked.clear();
    }
    wrong.extend(host.is_as_before(&[run.pid]).err());
    wrong
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Asserts that the program runs if no call is refused.
fn runs_without_a_fault(marked: &Marked) {
    let run = finish(marked.command());
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "ran\n"), "{}", run.stderr);
    assert!(marked.is_marked(), "without a fault the program runs");
    marked.clear();
}

#[test]
fn each_refused_call_is_named_with_a_remedy_and_nothing_runs_or_stays() {
    if !walls_can_be_built() {
        return;
    }
    let host = Host::alone();
    let marked = Marked::new();
    runs_without_a_fault(&marked);
    let mut wrong = Vec::new();
    for case in CASES {
        if case.by == By::Root && !is_root() {
            not_run(&format!("{}: only root does this", case.what));
            continue;
        }
        let found = wrongs(&host, &marked, &[case.refused], case.says);
        wrong.extend(found.into_iter().map(|wrong| format!("{}: {wrong}", case.what)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn refused_clone_is_named_with_a_remedy_and_nothing_runs_or_stays() {
    if !walls_can_be_built() {
        return;
    }
    let host = Host::alone();
    let marked = Marked::new();
    runs_without_a_fault(&marked);
    assert_eq!(wrongs(&host, &marked, &CLONES, "clone"), [""; 0]);
}

#[test]
fn refused_writes_to_cgroups_and_id_maps_are_named_and_nothing_runs_or_stays() {
    if !walls_can_be_built() {
        return;
    }
    if !is_root() {
        return not_run("only root has cgroups and a range of ids for certain");
    }
    let host = Host::alone();
    let marked = Marked::new();
    runs_without_a_fault(&marked);
    assert_eq!(wrongs(&host, &marked, &[MEMORY_LIMIT], "cgroup: write \"104857600\""), [""; 0]);
    assert_eq!(wrongs(&host, &marked, &[ID_MAP], "maps"), [""; 0]);
}

#[test]
fn refused_execve_of_the_program_is_reported_and_nothing_stays() {
    if !walls_can_be_built() {
        return;
    }
    let host = Host::alone();
    let marked = Marked::new();
    runs_without_a_fault(&marked);
    let run = finish_refusing(marked.command(), &[PROGRAM]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(127), ""), "{}", run.stderr);
    assert!(run.stderr.contains("cannot start") && run.stderr.contains("not permitted"), "{run:?}");
    assert!(!marked.is_marked(), "the program ran");
    host.is_as_before(&[run.pid]).unwrap();
}
