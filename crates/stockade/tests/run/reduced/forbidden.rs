//! A host that forbids namespaces, simulated by a user namespace: its max_user_namespaces applies
//! to every process in it.

use std::process::Command;

use super::{PROGRAMS, can_be_built, patiently};
use crate::support::{Run, binary, finish, skipped, walls_can_be_built};
use stockade_testing::Scratch;

/// Hides the host's cgroups, forbids user namespaces, then executes the command.
const FORBID: &str = "test ! -d /sys/fs/cgroup || mount -t tmpfs none /sys/fs/cgroup || exit 99
echo 0 > /proc/sys/user/max_user_namespaces || exit 99
exec \"$@\"";

/// Runs `stockade` where user namespaces are forbidden.
fn there(words: &[&str]) -> Run {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", FORBID, "sh"]);
    command.arg(binary()).args(words).env("PATH", PROGRAMS);
    finish(command)
}

/// Whether such a namespace can be created, and both walls work outside it.
fn can_be_tried() -> bool {
    if !walls_can_be_built() || !can_be_built() {
        return false;
    }
    let version = there(&["--version"]);
    if version.code != 0 {
        skipped("namespaces", version.stderr.trim());
    }
    version.code == 0
}

const KNOB: &str = "forbidden by the sysctl user.max_user_namespaces, which is 0";

#[test]
fn host_without_namespaces_is_refused_with_its_sysctl_and_no_weaker_wall_is_used() {
    if !can_be_tried() {
        return;
    }
    let run = there(&["run", "--", "echo", "ran"]);
    assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{}", run.stderr);
    assert!(run.stderr.contains(KNOB), "{}", run.stderr);
    assert!(run.stderr.contains("isolation: reduced"), "{}", run.stderr);
    let scratch = Scratch::new();
    let policy = scratch.file("p.yaml", "name: p\n");
    let plan = patiently(|| there(&["policy", "plan", &policy]));
    assert_ne!(plan.code, 0);
    assert!(plan.stdout.contains(KNOB), "{}", plan.stdout);
}

#[test]
fn host_without_namespaces_uses_and_reports_the_reduced_wall_if_accepted() {
    if !can_be_tried() {
        return;
    }
    let run =
        there(&["run", "--isolation", "reduced", "--", "sh", "-c", "echo ran; cat /etc/passwd"]);
    assert_eq!((run.code, run.stdout.as_str()), (1, "ran\n"), "{}", run.stderr);
    assert!(run.stderr.contains("stockade: the reduced wall was used"), "{}", run.stderr);
    let scratch = Scratch::new();
    let policy = scratch.file("p.yaml", "isolation: reduced\n");
    let json = there(&["run", "--json", "--policy", &policy, "--", "true"]).json();
    assert_eq!((&json["provider"], &json["outcome"]), (&"reduced".into(), &"exited".into()));
    let plan = patiently(|| there(&["policy", "plan", "--json", &policy])).json();
    assert_eq!(
        (&plan["provider"], &plan["enforceable"]),
        (&"reduced".into(), &true.into()),
        "{plan}"
    );
    // A clause that needs namespaces is refused with the reason why they are unavailable.
    let place = scratch.directory("place");
    let text = format!(
        "isolation: reduced\nfilesystem: {{ read: [{{ host: {place}, guest: /data }}] }}\n"
    );
    let policy = scratch.file("moved.yaml", text);
    let run = there(&["run", "--policy", &policy, "--", "echo", "ran"]);
    assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{}", run.stderr);
    assert!(run.stderr.contains(KNOB), "{}", run.stderr);
}
