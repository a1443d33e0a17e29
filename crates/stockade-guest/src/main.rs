//! The executable that runs inside: one thread, one stream, on file descriptor 0.

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

use stockade_guest::{GuestExit, serve};

fn main() -> ExitCode {
    // Both directions use the one descriptor. The copy closes on exec.
    match io::stdin().as_fd().try_clone_to_owned() {
        Ok(stream) => serve(stream).into(),
        Err(_) => GuestExit::Stream.into(),
    }
}
