//! Process lifecycle: outliving the run, stopping, killing.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use stockade_conformance::Tried;
use stockade_sys::probe::{Argument, raw_call};
use stockade_sys::{Forked, fork_process};

use crate::{Act, number, word};

pub(crate) const ACTS: &[(&str, Act)] = &[
    ("wait", wait),
    ("exit", exit),
    ("die", die),
    ("kill", kill),
    ("kill-all", kill_all),
    ("kill-group", kill_group),
    ("stop", stop),
    ("daemon", daemon),
    ("beat", beat),
    ("many", many),
    ("orphans", orphans),
    ("mark", mark),
];

/// Waits this many milliseconds.
fn wait(words: &[&str]) -> Tried {
    std::thread::sleep(Duration::from_millis(number(words, 0)));
    Tried::one(Ok("waited"))
}

/// Exits with this code.
fn exit(words: &[&str]) -> Tried {
    std::process::exit(i32::try_from(number(words, 0)).unwrap_or(0))
}

/// Kills itself with this signal.
fn die(words: &[&str]) -> Tried {
    send(std::process::id().cast_signed(), number(words, 0))
}

/// Sends a signal to one process.
fn kill(words: &[&str]) -> Tried {
    send(i32::try_from(number(words, 0)).unwrap_or(0), number(words, 1))
}

fn send(process: i32, signal: u64) -> Tried {
    let signal = Argument::Number(u32::try_from(signal).unwrap_or(0));
    let process = match process {
        negative if negative < 0 => Argument::Minus(negative.unsigned_abs()),
        process => Argument::Number(process.unsigned_abs()),
    };
    Tried::one(raw_call(libc::SYS_kill, &mut [process, signal]).map(|_| "sent"))
}

/// Kills every process that it may signal.
fn kill_all(_: &[&str]) -> Tried {
    send(-1, libc::SIGKILL as u64)
}

/// Terminates its own process group.
fn kill_group(_: &[&str]) -> Tried {
    send(0, libc::SIGTERM as u64)
}

/// Stops itself with SIGSTOP; no process continues it.
fn stop(_: &[&str]) -> Tried {
    send(std::process::id().cast_signed(), libc::SIGSTOP as u64)
}

/// Leaves a daemon that keeps writing to a file: forked twice, in a new session, ignoring SIGTERM
/// and similar signals, with no open descriptor.
fn daemon(words: &[&str]) -> Tried {
    let mut command = Command::new("/proc/self/exe");
    command.args(["beat", word(words, 0), word(words, 1)]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match fork_process() {
        Ok(Forked::Child) => {
            for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
                // Best effort: a signal that cannot be ignored only makes the daemon easier to
                // kill.
                let _ = stockade_sys::ignore_signal(signal);
            }
            let _ = rustix::process::setsid();
            if word(words, 2) == "subreaper" {
                let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
            }
            let _ = command.spawn();
            std::process::exit(0)
        }
        Ok(Forked::Original { child }) => {
            let _ = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
            Tried::one(Ok("left behind"))
        }
        Err(error) => Tried::one(Err::<String, _>(error)),
    }
}

/// Appends a byte to a file every 20 milliseconds, at most this many times.
fn beat(words: &[&str]) -> Tried {
    for _ in 0..number(words, 1) {
        let file = OpenOptions::new().create(true).append(true).open(word(words, 0));
        // Continues even if the file has been removed.
        let _ = file.and_then(|mut file| file.write_all(b"."));
        std::thread::sleep(Duration::from_millis(20));
    }
    Tried::one(Ok("stopped"))
}

/// Starts this many waiting copies of itself; then either forks without end, to race the killer, or
/// waits.
fn many(words: &[&str]) -> Tried {
    let start = || {
        let mut command = Command::new("/proc/self/exe");
        command.args(["wait", "8000", word(words, 2)]).stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn()
    };
    for _ in 0..number(words, 0) {
        drop(start());
    }
    if word(words, 1) == "race" {
        loop {
            if let Ok(mut child) = start() {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
    std::thread::sleep(Duration::from_secs(8));
    Tried::one(Ok("waited"))
}

/// Leaves this many dead children to be reparented, or keeps them; then counts the zombies.
fn orphans(words: &[&str]) -> Tried {
    for _ in 0..number(words, 0) {
        match fork_process() {
            Ok(Forked::Child) => {
                if word(words, 1) == "given-away" {
                    // Both child and grandchild exit; the grandchild has lost its parent.
                    let _ = fork_process();
                }
                std::process::exit(0)
            }
            Ok(Forked::Original { child }) if word(words, 1) == "given-away" => {
                let _ =
                    rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
            }
            Ok(Forked::Original { .. }) => {}
            Err(error) => return Tried::counted(0, Some(error)),
        }
    }
    let mut dead = 0;
    // The process that adopts them needs a moment to reap them.
    for _ in 0..50 {
        dead = count_dead();
        if dead == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Tried::counted(dead, None)
}

fn count_dead() -> i64 {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = entries.filter_map(|it| std::fs::read_to_string(it.path().join("stat")).ok());
    stats.filter(|stat| stat.contains(") Z ") && stat.contains("(stockade-probe)")).count() as i64
}

/// Writes a file as proof that it ran.
fn mark(words: &[&str]) -> Tried {
    Tried::one(std::fs::write(word(words, 0), "ran").map(|()| "ran"))
}
