//! From detection to the sweep.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::support::*;
use crate::{Controller, Group, GroupName, Hierarchy, Layout, Limits, Version, sweep};

/// The test that other tests run by executing this binary again.
const OWNER: &str = "tests::lives::acts_as_an_owner_that_is_killed";
const NOBODY: &str = "tests::lives::acts_as_nobody";

#[test]
fn many_rounds_leave_nothing() {
    const ROUNDS: u32 = 200;
    for (kind, layout) in layouts_with(&[Controller::Kill]) {
        let limits = Limits {
            memory_bytes: layout.has(Controller::Memory).then_some(64 << 20),
            cpu_millis: layout.has(Controller::Cpu).then_some(1000),
            pids: layout.has(Controller::Pids).then_some(100),
            ..Limits::default()
        };
        let (mut making, mut removing) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let group = create(&layout, &limits);
            let entry = group.entry().unwrap();
            making += start.elapsed();
            drop(entry);
            let (paths, start) = (paths(&group), Instant::now());
            group.remove(soon()).unwrap();
            removing += start.elapsed();
            assert!(leaves_nothing(&paths), "{kind}");
        }
        let (making, removing) = (making / ROUNDS, removing / ROUNDS);
        say(&format!("{kind}: made and opened in {making:?}, removed in {removing:?}, mean"));
    }
}

#[test]
fn detection_is_fast_and_repeatable() {
    let first = Layout::detect();
    let start = Instant::now();
    assert_eq!(Layout::detect(), first);
    say(&format!("detected in {:?}", start.elapsed()));
}

#[test]
fn concurrently_created_groups_do_not_collide() {
    let Some(layout) = layout_with(&[Controller::Kill]) else { return };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    create(&layout, &Limits::default()).remove(soon()).unwrap();
                    assert_eq!(Layout::detect().hierarchies(), layout.hierarchies());
                }
            });
        }
    });
}

#[test]
fn process_without_rights_enters_through_an_open_file() {
    let Some(layout) = layout_with(&[Controller::Kill]) else { return };
    if !rustix::process::geteuid().is_root() {
        return cannot_run("only root can become another user");
    }
    for version in [Version::V1, Version::V2] {
        let kills =
            |it: &Hierarchy| it.version == version && it.controllers.contains(&Controller::Kill);
        let layout = layout.clone().only(kills);
        if layout.hierarchies().is_empty() {
            continue;
        }
        let group = create(&layout, &Limits::default());
        let denied = enter_as_nobody(
            Stdio::null(),
            &format!("echo 0 > '{}'", group.entry_paths()[0].display()),
        );
        assert!(!denied.wait_with_output().unwrap().status.success(), "{version:?}: by its path");
        let mut entry = group.entry().unwrap();
        let file = entry.tasks.pop().or(entry.unified.map(|unified| unified.procs)).unwrap();
        let mut child = enter_as_nobody(file.into(), "echo 0 && exec sleep 1000 > /dev/null");
        wait_until("it is inside", || population(&group) == 1);
        finish(group);
        assert!(!child.wait().unwrap().success());
    }
}

fn enter_as_nobody(output: Stdio, script: &str) -> Child {
    Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"])
        .args(["sh", "-c", script])
        .stdout(output)
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn sweep_keeps_groups_of_living_owners_and_removes_those_of_dead_ones() {
    let Some(layout) = layout_with(&[Controller::Kill]) else { return };
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", OWNER, "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    let name = lines.map_while(Result::ok).find_map(|line| GroupName::parse(line.trim())).unwrap();

    let mine = create(&layout, &Limits::default());
    let report = sweep(&layout).unwrap();
    assert!(!report.removed.contains(&name) && report.alive >= 2, "{report:?}");
    assert!(left(&layout, &name) > 0);

    owner.kill().unwrap();
    owner.wait().unwrap();
    let start = Instant::now();
    let report = sweep(&layout).unwrap();
    say(&format!("swept in {:?}", start.elapsed()));
    // A concurrent sweep may have been faster; the result is the same.
    assert!(report.failed.iter().all(|(failed, _)| *failed != name), "{report:?}");
    assert!(report.alive >= 1 && !report.cut_short);
    assert_eq!(left(&layout, &name), 0);
    assert!(paths(&mine).iter().all(|path| path.exists()));
    finish(mine);
}

fn left(layout: &Layout, name: &GroupName) -> usize {
    let path = |parent: &std::path::Path| parent.join(name.to_string());
    layout.hierarchies().iter().filter(|it| path(&it.parent).exists()).count()
}

#[test]
#[ignore = "run by the test of the sweep, as a process to kill"]
fn acts_as_an_owner_that_is_killed() {
    let layout = layout_with(&[Controller::Kill]).unwrap();
    let name = GroupName::new().unwrap();
    let group = Group::create(&layout, &name, &Limits::default()).unwrap();
    let mut child = spawn_in(&group, "exec sleep 1000");
    wait_until("it is inside", || !group.is_empty().unwrap());
    writeln!(std::io::stdout(), "\n{name}").unwrap();
    // Runs until this process is killed, or the test that started it exits.
    let _ = std::io::stdin().lines().count();
    finish(group);
    child.wait().unwrap();
}

#[test]
fn user_nobody_gets_the_reason_why_no_cgroup_is_usable() {
    if !rustix::process::geteuid().is_root() {
        return cannot_run("only root can become another user");
    }
    if layout_with(&[Controller::Kill, Controller::Memory]).is_none() {
        return;
    }
    // A copy, because another user may lack access to the original.
    let copy = std::env::temp_dir().join(format!("stockade-nobody-{}", std::process::id()));
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).unwrap();
    let attempt = || {
        Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"])
            .arg(&copy)
            .args(["--exact", NOBODY, "--ignored"])
            .output()
            .unwrap()
    };
    // A child of another test holds the copy open for writing until its exec.
    let is_busy =
        |output: &Output| String::from_utf8_lossy(&output.stderr).contains("Text file busy");
    let mut output = attempt();
    for _ in 0..100 {
        if !is_busy(&output) {
            break;
        }
        thread::sleep(Duration::from_millis(10));
        output = attempt();
    }
    std::fs::remove_file(&copy).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{error}");
}

#[test]
#[ignore = "run by the test above, as another user"]
fn acts_as_nobody() {
    assert!(!rustix::process::geteuid().is_root());
    let layout = Layout::detect();
    assert_eq!(layout.hierarchies(), []);
    let reason = &layout.obstacles()[&Controller::Memory].reason;
    assert!(reason.starts_with("this user may not make groups below /"), "{reason}");
    assert!(!layout.obstacles()[&Controller::Memory].remedy.is_empty());
}

#[test]
fn expected_layout_equals_the_detected_one() {
    assert_eq!(Layout::expect(), Layout::detect());
}

#[test]
fn foreseen_layout_equals_what_a_start_finds() {
    let foreseen = Layout::foresee();
    assert_eq!(foreseen, Layout::expect());
    // The start has enabled the missing controllers.
    assert_eq!(Layout::as_it_is(), foreseen);
}
