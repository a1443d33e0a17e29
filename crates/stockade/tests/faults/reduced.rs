//! Refuses one system call of each step that builds the reduced wall.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use libc::{EAGAIN, ENOSYS, EPERM};
use stockade_testing::skipped;

use crate::leftovers::{Host, binary};
use crate::refusals::{is_root, wrongs_of};
use crate::refusing::{Marked, Refused, finish};

const ALL: u32 = u32::MAX;
const PIDFD: u32 = libc::CLONE_PIDFD as u32;
const MEMORY: u32 = libc::CLONE_VM as u32;

/// The refused call, and text that the error must contain.
type Case = (Refused, &'static str);

const fn case(
    call: libc::c_long,
    when: &'static [(u32, u32, u32)],
    errno: i32,
    says: &'static str,
) -> Case {
    (Refused { call, when, errno }, says)
}

/// Steps of every sandbox, in order.
const CASES: [Case; 11] = [
    case(libc::SYS_setsid, &[], ENOSYS, "stand_apart"),
    case(libc::SYS_prctl, &[(0, ALL, 36)], EPERM, "adopt_orphans"),
    case(libc::SYS_prctl, &[(0, ALL, 4)], EPERM, "seal_privileges"),
    case(libc::SYS_prctl, &[(0, ALL, 24)], ENOSYS, "seal_privileges"),
    case(libc::SYS_prctl, &[(0, ALL, 47)], EPERM, "seal_privileges"),
    case(libc::SYS_prctl, &[(0, ALL, 38)], EPERM, "the wall could not be built"),
    case(libc::SYS_openat2, &[], ENOSYS, "landlock"),
    case(libc::SYS_landlock_add_rule, &[], EPERM, "landlock"),
    case(libc::SYS_landlock_restrict_self, &[], EPERM, "the wall could not be built"),
    case(libc::SYS_seccomp, &[], EPERM, "seccomp"),
    case(libc::SYS_close_range, &[(2, 4, 4)], EPERM, "serve_confined"),
];

/// Stockade forks the first process with clone, or with clone3 into a cgroup of version 2.
const FORKS: [Refused; 2] = [
    Refused { call: libc::SYS_clone, when: &[(0, PIDFD | MEMORY, PIDFD)], errno: EAGAIN },
    Refused { call: libc::SYS_clone3, when: &[], errno: ENOSYS },
];

/// Steps of a sandbox that has its own user id, which only root can create.
const ROOTS: [Case; 7] = [
    case(libc::SYS_bind, &[], EPERM, "range of uids"),
    case(libc::SYS_fchown, &[], EPERM, "scratch directory"),
    case(libc::SYS_setgroups, &[], EPERM, "become_user"),
    case(libc::SYS_prctl, &[(0, ALL, 8)], EPERM, "become_user"),
    case(libc::SYS_setresgid, &[], EPERM, "become_user"),
    case(libc::SYS_setresuid, &[], EPERM, "become_user"),
    case(libc::SYS_capset, &[], EPERM, "become_user"),
];

/// A run behind the reduced wall that prints and creates the mark file.
fn command(marked: &Marked) -> Command {
    let place = marked.path().display();
    let mut command = Command::new(binary());
    command
        .args(["run", "--quiet", "--provider", "reduced", "--isolation", "reduced", "--mount"])
        .arg(format!("{place}:{place}:rw"))
        .args(["--", "sh", "-c", &format!("echo ran; echo ran > {place}/mark")])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[test]
fn each_refused_call_of_the_reduced_wall_is_named_and_nothing_runs_or_stays() {
    let host = Host::alone();
    let marked = Marked::new();
    std::fs::set_permissions(marked.path(), Permissions::from_mode(0o777)).unwrap();
    let run = finish(command(&marked));
    if run.stderr.contains("Landlock") {
        skipped("landlock", &run.stderr);
        return;
    }
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "ran\n"), "{}", run.stderr);
    assert!(marked.is_marked(), "without a fault the program runs");
    marked.clear();
    let mut wrong = Vec::new();
    let roots = ROOTS.iter().filter(|_| is_root());
    for (refused, says) in CASES.iter().chain(roots) {
        let found = wrongs_of(&host, &marked, command(&marked), &[*refused], says);
        wrong.extend(found.into_iter().map(|wrong| format!("{refused:?}: {wrong}")));
    }
    wrong.extend(wrongs_of(&host, &marked, command(&marked), &FORKS, "fork"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
