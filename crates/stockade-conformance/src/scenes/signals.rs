//! Signals to processes outside the sandbox.

use std::os::unix::process::CommandExt;
use std::time::Duration;

use super::{Running, must};
use crate::bench::Bench;
use crate::seen::{Output, finish};
use crate::wall::Wall;

const SOON: Duration = Duration::from_secs(2);

/// On the host the process can be signalled.
pub(crate) fn every_process_control(bench: &Bench, _: &Wall) -> Result<String, String> {
    let seen = bench.on_host(&["kill", "{process}", "0"])?;
    must(seen.ret() == Some(1), seen.summary())?;
    Ok("the process can be signalled on the host".to_owned())
}

/// Inside it does not exist, and killing every process does not reach it.
pub(crate) fn every_process(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let seen = wall.act(bench, &[], &["kill", "{process}", "0"])?;
    let errno = seen.answer.as_ref().and_then(|answer| answer.errno.as_deref());
    must(matches!(errno, Some("ESRCH" | "EPERM")), seen.summary())?;
    wall.act(bench, &[], &["kill-all"])?;
    must(bench.canaries.process_lives(), "a process of the host was killed from inside")
}

/// A process that leads a new process group.
fn victim(bench: &Bench) -> Result<(Running, i32), String> {
    let mut command = bench.host_command(&["wait", "20000"]);
    command.process_group(0);
    let running = Running::start(command)?;
    let group = i32::try_from(running.0.id()).map_err(|error| error.to_string())?;
    Ok((running, group))
}

/// Without the wall a signal to the own process group ends its other members.
pub(crate) fn group_control(bench: &Bench, _: &Wall) -> Result<String, String> {
    let (victim, group) = victim(bench)?;
    let mut command = bench.host_command(&["kill-group"]);
    command.process_group(group);
    finish(command, Output::Plain)?;
    must(victim.ends_within(SOON), "the victim lives")?;
    Ok("the other of the group is dead".to_owned())
}

/// Behind the wall the sandbox has its own process group, though Stockade is in the victim's.
pub(crate) fn group(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let (victim, group) = victim(bench)?;
    let mut command = wall.command(bench, &[], &["kill-group"]);
    command.process_group(group);
    let seen = finish(command, Output::Report)?;
    must(seen.outcome() == "signaled", seen.summary())?;
    must(!victim.ends_within(Duration::from_millis(50)), "the victim was killed from inside")
}
