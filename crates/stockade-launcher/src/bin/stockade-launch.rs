//! Carries out one plan that it receives on standard input, a socket, where it also sends its
//! reports. Only the tests of this crate use it; the shipped launcher is part of the guest.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use stockade_launcher::{Launched, launch};

fn main() -> ExitCode {
    let Ok(control) = io::stdin().as_fd().try_clone_to_owned() else { return ExitCode::FAILURE };
    match launch(UnixStream::from(control)) {
        Launched::Done(code) => ExitCode::from(code),
        // This executable contains no guest.
        Launched::Inside(_) | Launched::Confined { .. } => ExitCode::FAILURE,
    }
}
