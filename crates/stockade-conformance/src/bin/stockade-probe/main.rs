//! The executable that runs inside a wall: one act per call, one line of JSON, and exit code 0. It
//! reports what happened; the harness outside judges it.

mod calls;
mod changes;
mod credentials;
mod files;
mod ipc;
mod lives;
mod mounts;
mod privileged;
mod sockets;
mod status;
mod terminal;
mod tools;
mod usage;

use std::io::{self, Write};
use std::process::ExitCode;

use stockade_conformance::{Answer, Tried};

/// An act: takes the words after its name and returns its tries.
type Act = fn(&[&str]) -> Tried;

/// Every act by name, grouped by subject.
const ACTS: [&[(&str, Act)]; 13] = [
    calls::ACTS,
    changes::ACTS,
    credentials::ACTS,
    files::ACTS,
    ipc::ACTS,
    lives::ACTS,
    mounts::ACTS,
    privileged::ACTS,
    sockets::ACTS,
    status::ACTS,
    terminal::ACTS,
    tools::ACTS,
    usage::ACTS,
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some((name, rest)) = words.split_first() else { return ExitCode::from(2) };
    let known = ACTS.iter().flat_map(|acts| acts.iter()).find(|(known, _)| known == name);
    let Some((_, act)) = known else { return ExitCode::from(2) };
    let answer = Answer::of(name, act(rest));
    match writeln!(io::stdout(), "{}", answer.line()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(3),
    }
}

/// Parses the word at a position as a number; 0 if it is missing or not a number.
fn number(words: &[&str], at: usize) -> u64 {
    words.get(at).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// The word at a position; empty if missing.
fn word<'a>(words: &[&'a str], at: usize) -> &'a str {
    words.get(at).copied().unwrap_or_default()
}

/// An error with this errno.
fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}
