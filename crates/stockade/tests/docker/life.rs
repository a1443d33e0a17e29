//! What is left of a container after any kind of end: nothing.

use std::os::unix::process::CommandExt;
use std::process::Stdio;

use stockade_testing::{engine, wait_for};

use crate::support::{
    command, containers, directory, docker, finish, run, tests, wait_until_removed,
};

tests![
    ended_killed_and_cancelled_runs_leave_nothing,
    leftovers_of_a_dead_owner_are_swept_and_others_stay,
];

/// A container of one test, by its program's argument.
pub(crate) fn running(mark: &str) -> Option<String> {
    let all = containers("stockade.sandbox");
    all.into_iter().find(|id| {
        let inspected = finish(engine::client(&directory()).args(["top", id]));
        inspected.code == 0 && inspected.stdout.contains(mark)
    })
}

fn ended_killed_and_cancelled_runs_leave_nothing(runtime: &'static str) {
    for (number, signal) in
        [("86401", rustix::process::Signal::KILL), ("86402", rustix::process::Signal::INT)]
    {
        let mut command = command(runtime, &[], &["sleep", number]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().expect("stockade starts");
        // On gVisor the host sees no process of the program: wait for the container itself.
        let id = wait_for("the container runs", || match runtime {
            "runsc" => containers("stockade.sandbox").pop(),
            _ => running(number),
        });
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, signal).expect("it runs");
        child.wait().expect("it is a child");
        wait_for("the container is removed", || {
            (!containers("stockade.sandbox").contains(&id)).then_some(())
        });
    }
}

fn leftovers_of_a_dead_owner_are_swept_and_others_stay(runtime: &'static str) {
    let user = format!("stockade.user={}", rustix::process::getuid().as_raw());
    // The realm of this process, from a container of a living owner.
    let mut command = command(runtime, &[], &["sleep", "30"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("stockade starts");
    let owner = wait_for("a container has an owner", || {
        let format = "{{.Label \"stockade.owner\"}}";
        let all = docker(&["ps", "--format", format, "--filter", "label=stockade.sandbox"]);
        all.into_iter().find(|owner| owner.starts_with(&format!("{}.", child.id())))
    });
    let (rest, realm) = owner.rsplit_once('.').expect("an owner has three parts");
    let pid = rest.split('.').next().expect("an owner has three parts");
    let create = |mark: &str, labels: &[&str]| {
        let label = format!("mark={mark}-{runtime}");
        let mut words = vec!["create", "--label", label.as_str()];
        for label in labels {
            words.extend(["--label", label]);
        }
        words.extend(["python:3.11-slim", "true"]);
        docker(&words);
        label
    };
    let dead = create("dead", &[&user, &format!("stockade.owner={pid}.1.{realm}")]);
    let foreign = create("foreign", &[]);
    let elsewhere = create("elsewhere", &[&user, "stockade.owner=1.1.00000000000000aa"]);
    let alive = create("alive", &[&user, &format!("stockade.owner={owner}")]);
    // It exists now, unless a concurrent test has swept it already.
    assert_eq!(run(runtime, &[], &["true"]).code, 0);
    wait_until_removed(&dead);
    for kept in [&foreign, &elsewhere, &alive] {
        assert_eq!(containers(kept).len(), 1, "{kept}");
        docker(&["rm", &containers(kept)[0]]);
    }
    child.kill().expect("it runs");
    child.wait().expect("it is a child");
}
