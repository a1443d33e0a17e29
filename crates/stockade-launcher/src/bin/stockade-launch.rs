//! Carries out one plan that comes on standard input, which is also where the reports go. The
//! tests of this crate use it; the shipped launcher is part of the guest.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

fn main() -> ExitCode {
    match io::stdin().as_fd().try_clone_to_owned() {
        Ok(stream) => stockade_launcher::launch(&mut File::from(stream)).into(),
        Err(_) => ExitCode::FAILURE,
    }
}
