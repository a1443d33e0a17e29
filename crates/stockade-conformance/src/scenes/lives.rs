//! How programs that resist end, and how Stockade ends.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{Running, end_all, error_text, must, processes_with, within};
use crate::bench::Bench;
use crate::canaries::random;
use crate::seen::{Output, finish};
use crate::wall::Wall;

const SOON: Duration = Duration::from_secs(3);
const MOMENT: Duration = Duration::from_millis(150);
const OUT: &[&str] = &["--mount", "{writable}:/out:rw"];

fn beats(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |it| it.len())
}

fn beats_on(file: &Path) -> bool {
    let before = beats(file);
    within(MOMENT, || beats(file) > before)
}

fn left_by_daemon(bench: &Bench, kind: &str) -> Result<String, String> {
    bench.renew_tree().map_err(error_text)?;
    let file = Path::new(&bench.names["tree"]).join("beat");
    bench.on_host(&["daemon", "{tree}/beat", "40", kind])?;
    must(beats_on(&file), "the daemon is dead on the host too")?;
    // The daemon's own limit ends it.
    must(within(SOON, || !beats_on(&file)), "the daemon does not end")?;
    Ok("on the host it beats on after the program's end".to_owned())
}

fn daemon_of(bench: &Bench, wall: &Wall, kind: &str) -> Result<(), String> {
    let file = Path::new(&wall.names["writable"]).join("beat");
    let seen = wall.act(bench, OUT, &["daemon", "/out/beat", "200", kind])?;
    must(seen.outcome() == "exited" && seen.ret() == Some(1), seen.summary())?;
    must(!beats_on(&file), "the daemon outlives its sandbox")
}

pub(crate) fn daemon_control(bench: &Bench, _: &Wall) -> Result<String, String> {
    left_by_daemon(bench, "plain")
}

pub(crate) fn daemon(bench: &Bench, wall: &Wall) -> Result<(), String> {
    daemon_of(bench, wall, "plain")
}

pub(crate) fn adopter_control(bench: &Bench, _: &Wall) -> Result<String, String> {
    left_by_daemon(bench, "subreaper")
}

pub(crate) fn adopter(bench: &Bench, wall: &Wall) -> Result<(), String> {
    daemon_of(bench, wall, "subreaper")
}

/// A stopped process does not end by itself.
pub(crate) fn stopped_control(bench: &Bench, _: &Wall) -> Result<String, String> {
    let stopped = Running::start(bench.host_command(&["stop"]))?;
    must(!stopped.ends_within(MOMENT), "it ends on the host")?;
    Ok("on the host it stays stopped".to_owned())
}

/// The deadline ends it anyway.
pub(crate) fn stopped(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let seen = wall.act(bench, &["--timeout", "300ms"], &["stop"])?;
    must(seen.outcome() == "timed_out" && seen.elapsed < SOON, seen.summary())
}

/// SIGKILL kills the victim on the host.
pub(crate) fn first_control(bench: &Bench, _: &Wall) -> Result<String, String> {
    let victim = Running::start(bench.host_command(&["wait", "20000"]))?;
    bench.on_host(&["kill", &victim.0.id().to_string(), "9"])?;
    must(victim.ends_within(SOON), "the victim lives")?;
    Ok("on the host the victim dies of it".to_owned())
}

/// The kernel does not deliver it to the first process inside, and the program ends as usual.
pub(crate) fn first(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let seen = wall.act(bench, &[], &["kill", "1", "9"])?;
    must(seen.outcome() == "exited" && seen.answer.is_some(), seen.summary())
}

/// Without the wall only the killed process dies.
pub(crate) fn race_control(bench: &Bench, _: &Wall) -> Result<String, String> {
    let word = random(8).map_err(error_text)?;
    let running = Running::start(bench.host_command(&["many", "5", "still", &word]))?;
    let started = within(SOON, || processes_with(&word).len() == 6);
    drop(running);
    let left = processes_with(&word).len();
    end_all(&word);
    must(started && left == 5, format!("{left} were left"))?;
    Ok("on the host five live on".to_owned())
}

/// A deadline during a fork loop leaves no process.
pub(crate) fn race(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let word = random(8).map_err(error_text)?;
    let seen = wall.act(bench, &["--timeout", "400ms"], &["many", "5", "race", &word])?;
    must(seen.outcome() == "timed_out", seen.summary())?;
    let left = || processes_with(&word);
    must(within(SOON, || left().is_empty()), format!("{:?} live on", left()))
}

/// A child outlives its killed parent.
pub(crate) fn killed_control(bench: &Bench, _: &Wall) -> Result<String, String> {
    let word = random(8).map_err(error_text)?;
    let mut parent = Command::new("/bin/sh");
    parent.args(["-c", "\"$0\" wait 20000 \"$1\" & wait"]).arg(&bench.probe).arg(&word);
    let parent = Running::start(parent)?;
    let started = within(SOON, || processes_with(&word).len() == 2);
    drop(parent);
    let left = processes_with(&word).len();
    end_all(&word);
    must(started && left == 1, format!("{left} were left"))?;
    Ok("on the host a child outlives its killed parent".to_owned())
}

/// No process inside outlives Stockade, even after SIGKILL.
pub(crate) fn killed(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let word = random(8).map_err(error_text)?;
    let running = Running::start(wall.command(bench, &[], &["wait", "20000", &word]))?;
    let inside = || processes_with(&word).into_iter().filter(|id| *id != running.0.id()).count();
    must(within(SOON, || inside() > 0), "nothing started inside")?;
    drop(running);
    let left = || processes_with(&word);
    must(within(SOON, || left().is_empty()), format!("{:?} live on", left()))
}

/// A shell returns 137 both for exit code 137 and for SIGKILL.
pub(crate) fn ends_control(bench: &Bench, _: &Wall) -> Result<String, String> {
    let through_shell = |act: &str| -> Result<Option<i32>, String> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "\"$0\" $1; exit $?"]).arg(&bench.probe).arg(act);
        Ok(finish(shell, Output::Plain)?.code)
    };
    let (exited, died) = (through_shell("exit 137")?, through_shell("die 9")?);
    must(exited == died && exited == Some(137), format!("{exited:?} and {died:?}"))?;
    Ok("through a shell both are 137".to_owned())
}

/// The report distinguishes them.
pub(crate) fn ends(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let exited = wall.act(bench, &[], &["exit", "137"])?;
    must(exited.outcome() == "exited" && exited.report["exit_code"] == 137, exited.summary())?;
    let died = wall.act(bench, &[], &["die", "9"])?;
    must(died.outcome() == "signaled" && died.report["signal"]["number"] == 9, died.summary())?;
    let missing = finish(wall.program(bench, &[], &["/no/such/program"]), Output::Report)?;
    let errno = &missing.report["not_started"]["errno"];
    must(missing.outcome() == "not_started" && *errno == libc::ENOENT, missing.summary())?;
    let late = wall.act(bench, &["--timeout", "200ms"], &["wait", "20000"])?;
    must(late.outcome() == "timed_out", late.summary())
}

/// A valid timeout is accepted.
pub(crate) fn times_control(bench: &Bench, wall: &Wall) -> Result<String, String> {
    let seen = wall.act(bench, &["--timeout", "5s"], &["effective-user"])?;
    must(seen.answer.is_some(), seen.summary())?;
    Ok("with 5s it runs".to_owned())
}

/// Invalid timeouts are refused.
pub(crate) fn times(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let long = format!("{}h", u64::MAX);
    for time in ["0s", "-1s", "NaN", "1e3s", "", "5", &long] {
        let seen = wall.act(bench, &["--timeout", time], &["effective-user"])?;
        let refused = seen.answer.is_none() && matches!(seen.code, Some(2 | 125));
        must(refused, format!("{time:?}: {}", seen.summary()))?;
    }
    Ok(())
}
