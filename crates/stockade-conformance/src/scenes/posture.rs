//! Namespaces and credentials of a process inside, seen from outside.

use std::fs;
use std::time::Duration;

use super::{Running, must, processes_with, within};
use crate::bench::Bench;
use crate::canaries::random;
use crate::judge::NOBODY;
use crate::wall::Wall;

const NAMESPACES: [&str; 7] = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];

/// Starts a waiting program inside; returns the processes there, with their ids on the host.
fn waiting(bench: &Bench, wall: &Wall) -> Result<(Running, Vec<u32>), String> {
    let word = random(8).map_err(super::error_text)?;
    let running = Running::start(wall.command(bench, &[], &["wait", "20000", &word]))?;
    let host = namespace(std::process::id(), "pid");
    let inside = || -> Vec<u32> {
        let all = processes_with(&word).into_iter();
        all.filter(|id| namespace(*id, "pid") != host).collect()
    };
    must(within(Duration::from_secs(5), || !inside().is_empty()), "nothing started inside")?;
    let mut processes = inside();
    // The guest, which is its parent.
    for id in processes.clone() {
        processes.extend(field(id, "PPid").and_then(|parent| parent.parse::<u32>().ok()));
    }
    Ok((running, processes))
}

fn namespace(process: u32, kind: &str) -> Option<String> {
    let link = fs::read_link(format!("/proc/{process}/ns/{kind}")).ok()?;
    Some(link.to_string_lossy().into_owned())
}

fn field(process: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let lines = status.lines().filter_map(|line| line.split_once(':'));
    let value = { lines }.find(|(key, _)| *key == name)?.1;
    Some(value.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Checks that a process is confined.
fn wrong(process: u32, unprivileged: impl Fn(u32) -> bool) -> Result<(), String> {
    for kind in NAMESPACES {
        let own = namespace(std::process::id(), kind);
        must(own != namespace(process, kind), format!("{kind} is the host's namespace"))?;
    }
    let empty = "0000000000000000";
    let wanted = [
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
        ("CapInh", empty),
        ("CapPrm", empty),
        ("CapEff", empty),
        ("CapBnd", empty),
        ("CapAmb", empty),
    ];
    for (name, value) in wanted {
        let found = field(process, name).unwrap_or_default();
        must(found == value, format!("{name} of {process} is {found}"))?;
    }
    for name in ["Uid", "Gid"] {
        let ids = field(process, name).unwrap_or_default();
        let fine = |id: &str| id.parse().is_ok_and(&unprivileged);
        must(!ids.is_empty() && ids.split(' ').all(fine), format!("{name} of {process} is {ids}"))?;
    }
    Ok(())
}

/// A process of the host is not confined.
pub(crate) fn control(bench: &Bench, _: &Wall) -> Result<String, String> {
    let process = bench.names["process"].parse().map_err(|_| "no process")?;
    match wrong(process, |id| id != 0) {
        Ok(()) => Err("a process of the host looks like one inside".to_owned()),
        Err(why) => Ok(why),
    }
}

/// Both the program and the guest are confined.
pub(crate) fn play(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let (_running, processes) = waiting(bench, wall)?;
    must(processes.len() == 2, format!("{} processes instead of two", processes.len()))?;
    processes.into_iter().try_for_each(|process| wrong(process, |id| is_unprivileged(wall, id)))
}

fn is_unprivileged(wall: &Wall, id: u32) -> bool {
    match wall.user {
        Some(user) => id == user,
        None => id >= 0x7000_0000 || id == NOBODY,
    }
}

/// The first host id in a process's user namespace.
fn first_id(process: u32) -> Option<u32> {
    let map = fs::read_to_string(format!("/proc/{process}/uid_map")).ok()?;
    map.split_whitespace().nth(1)?.parse().ok()
}

/// The host's own map starts with root.
pub(crate) fn ids_control(_: &Bench, _: &Wall) -> Result<String, String> {
    match first_id(std::process::id()) {
        Some(0) => Ok("a process of the host has root's id".to_owned()),
        other => Err(format!("the host's map begins with {other:?}")),
    }
}

/// As root, two sandboxes have disjoint ranges; otherwise each has the caller's id.
pub(crate) fn ids(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let (_one, first) = waiting(bench, wall)?;
    let (_other, second) = waiting(bench, wall)?;
    let (first, second) = (first_id(first[0]), first_id(second[0]));
    let both = format!("{first:?} and {second:?}");
    match (wall.user, first, second) {
        (Some(user), Some(first), Some(second)) => must(first == user && second == user, both),
        (None, Some(first), Some(second)) => {
            let apart = first.abs_diff(second) >= 1 << 16;
            must(apart && first >= 0x7000_0000 && second >= 0x7000_0000, both)
        }
        _ => Err(both),
    }
}
