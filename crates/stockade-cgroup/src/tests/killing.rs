//! No process survives the end of its group.

use std::process::Child;
use std::time::Instant;

use super::support::*;
use crate::{Controller, Group, Limits, Version};

const SLEEP: &str = "exec sleep 1000";
/// Starts processes that ignore catchable signals and whose parents have exited.
const DAEMON: &str = "trap '' TERM HUP INT; for i in 1 2 3; do setsid sh -c \
                      'trap \"\" TERM HUP INT; (sleep 1000 &); exec sleep 1000' & done; exit 0";
const STOPPED: &str = "sleep 1000 & kill -STOP $! $$; sleep 1000";
const BOMB: &str = "exec python3 -c 'import os\nwhile True:\n try: os.fork()\n \
                    except OSError: pass'";

fn kill(kind: &str, group: Group, mut child: Child) {
    let start = Instant::now();
    group.kill_all(soon()).unwrap_or_else(|error| panic!("{kind}: {error}"));
    say(&format!("{kind}: all dead after {:?}", start.elapsed()));
    assert!(group.is_empty().unwrap());
    child.wait().unwrap();
    // A second count after every forking process is gone.
    assert_eq!(population(&group), 0);
    finish(group);
}

#[test]
fn fork_bomb_dies_completely() {
    for (kind, layout) in layouts_with(&[Controller::Pids]) {
        let group = create(&layout, &Limits { pids: Some(60), ..Limits::default() });
        let child = spawn_in(&group, BOMB);
        wait_until("the bomb has met its limit", || group.pids_hit().unwrap() > 100);
        kill(&format!("fork bomb, {kind}"), group, child);
    }
}

#[test]
fn reparented_daemons_die() {
    for (kind, layout) in layouts_with(&[Controller::Kill]) {
        let group = create(&layout, &Limits::default());
        let child = spawn_in(&group, DAEMON);
        wait_until("six daemons run", || population(&group) == 6);
        kill(&format!("daemons, {kind}"), group, child);
    }
}

#[test]
fn stopped_processes_die() {
    for (kind, layout) in layouts_with(&[Controller::Kill]) {
        let group = create(&layout, &Limits::default());
        let child = spawn_in(&group, STOPPED);
        let state = format!("/proc/{}/stat", child.id());
        wait_until("it is stopped", || {
            std::fs::read_to_string(&state).is_ok_and(|stat| stat.contains(") T "))
        });
        kill(&format!("stopped, {kind}"), group, child);
    }
}

#[test]
fn frozen_processes_die() {
    for (kind, layout) in layouts_with(&[Controller::Kill]) {
        let group = create(&layout, &Limits::default());
        let child = spawn_in(&group, SLEEP);
        wait_until("it is inside", || population(&group) == 1 && !group.is_empty().unwrap());
        let killer = group.directories.iter().rfind(|it| it.has(Controller::Kill)).unwrap();
        let (file, value) = match killer.version {
            Version::V1 => ("freezer.state", "FROZEN"),
            Version::V2 => ("cgroup.freeze", "1"),
        };
        std::fs::write(killer.path.join(file), value).unwrap();
        kill(&format!("frozen, {kind}"), group, child);
    }
}

#[test]
fn neighbour_and_parent_of_a_killed_group_live_on() {
    for (kind, layout) in layouts_with(&[Controller::Kill]) {
        let mut neighbour = spawn_outside(SLEEP);
        let (one, two) = (create(&layout, &Limits::default()), create(&layout, &Limits::default()));
        let mut other = spawn_in(&two, SLEEP);
        let child = spawn_in(&one, SLEEP);
        wait_until("both are inside", || population(&one) == 1 && population(&two) == 1);
        kill(&format!("beside another, {kind}"), one, child);
        assert!(neighbour.try_wait().unwrap().is_none(), "{kind}");
        assert!(other.try_wait().unwrap().is_none(), "{kind}");
        neighbour.kill().unwrap();
        neighbour.wait().unwrap();
        finish(two);
        other.wait().unwrap();
    }
}

#[test]
fn one_execution_ends_and_the_others_stay() {
    for (kind, layout) in layouts_with(&[Controller::Kill]) {
        let group = create(&layout, &Limits::default());
        let (one, two) = (group.exec_leaf(1).unwrap(), group.exec_leaf(2).unwrap());
        let mut guest = spawn_in(&group, SLEEP);
        let (child, mut other) = (spawn_in_leaf(&group, &one), spawn_in_leaf(&group, &two));
        wait_until("all are inside", || population(&one) == 1 && population(&two) == 1);
        kill(&format!("one execution, {kind}"), one, child);
        assert!(guest.try_wait().unwrap().is_none(), "{kind}");
        assert!(other.try_wait().unwrap().is_none(), "{kind}");
        // Killing the group kills its leaves too.
        finish(group);
        assert!(two.is_empty().unwrap());
        two.remove(soon()).unwrap();
        guest.wait().unwrap();
        other.wait().unwrap();
    }
}

/// Enters the group and then the leaf, as a child of the guest does.
fn spawn_in_leaf(group: &Group, leaf: &Group) -> Child {
    let enter: Vec<String> =
        leaf.entry_paths().iter().map(|path| format!("echo 0 > '{}'", path.display())).collect();
    spawn_in(group, &format!("{} && {SLEEP}", enter.join(" && ")))
}

#[test]
fn dropping_a_group_kills_and_removes() {
    for (kind, layout) in layouts_with(&[Controller::Kill]) {
        let group = create(&layout, &Limits::default());
        let mut child = spawn_in(&group, SLEEP);
        wait_until("it is inside", || !group.is_empty().unwrap());
        let paths = paths(&group);
        drop(group);
        assert!(leaves_nothing(&paths), "{kind}");
        assert!(!child.wait().unwrap().success());
    }
}

#[test]
fn deadline_is_kept_and_the_error_counts_the_remaining_processes() {
    let Some(layout) = layout_with(&[Controller::Kill]) else { return };
    let group = create(&layout, &Limits::default());
    let mut child = spawn_in(&group, SLEEP);
    wait_until("it is inside", || !group.is_empty().unwrap());
    let late = group.kill_all(Instant::now());
    // A deadline in the past can only succeed if the processes die immediately.
    if let Err(error) = late {
        assert!(error.to_string().starts_with("empty the cgroup /"), "{error}");
    }
    finish(group);
    child.wait().unwrap();
}
