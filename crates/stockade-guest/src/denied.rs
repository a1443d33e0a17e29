//! The report of a denied command, which a stub of the hardened image sends to the host.
//!
//! The host accepts only the names that it knows, so this end checks nothing. The stub prints its
//! own message and its exit code does not depend on this one.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use stockade_wire::{DENIAL_SOCKET, LAUNCHED_DENIAL_SOCKET};

/// How long to wait for the host, so that a busy host does not keep the stub.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sends the name of a command, and waits until the host has recorded it: the program that started
/// the stub may end right after it.
pub fn report_denied(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let name = words.next().and_then(|name| name.into_string().ok());
    let reported = match (name, words.next()) {
        (Some(name), None) => report(&name),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    };
    match reported {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn report(name: &str) -> io::Result<()> {
    // Programs can make the second one if it is missing, and not the first one.
    let mut socket = UnixStream::connect(LAUNCHED_DENIAL_SOCKET)
        .or_else(|_| UnixStream::connect(DENIAL_SOCKET))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.write_all(format!("{name}\n").as_bytes())?;
    // The host sends nothing and closes the connection once it has the name.
    let mut nothing = [0];
    socket.read(&mut nothing).map(|_| ())
}
