//! The executable that runs inside: one thread, one stream, on file descriptor 0.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::process::{self, ExitCode};

use stockade_guest::{GuestExit, converse};

fn main() -> ExitCode {
    // Both directions use the one descriptor; as a file it may be a socket or a serial port.
    match io::stdin().as_fd().try_clone_to_owned() {
        Ok(stream) => converse(&mut File::from(stream), process::id()).into(),
        Err(_) => GuestExit::Stream.into(),
    }
}
