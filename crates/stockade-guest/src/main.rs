//! The executable inside the wall. It is the launcher that builds the wall and also the guest, so
//! that nothing has to be executed inside a finished wall. Under the name `stockade-tool` it is the
//! command with which programs call tools.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;

use dlmalloc::GlobalDlmalloc;
use rustix::fs::{CWD, Mode, OFlags};
use stockade_guest::{
    COMMAND, GuestExit, MachineRoot, Own, call_tool, report_denied, serve, serve_confined,
    serve_machine, serve_on_pair,
};
use stockade_launcher::{Launched, Provisions, launch, lend, refuse};
use stockade_wire::MACHINE_DISK;

/// Keeps freed memory for reuse. The allocator of musl returns memory to the kernel at once, and
/// requests it again for every frame.
#[global_allocator]
static ALLOCATOR: GlobalDlmalloc = GlobalDlmalloc;

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let name = words.next().map(PathBuf::from);
    if name.is_some_and(|name| name.file_name() == Some(OsStr::new(COMMAND))) {
        return call_tool(words);
    }
    match words.next() {
        // The wall is complete, and its builder has put the stream on standard input.
        None => serve_on(io::stdin().as_fd().try_clone_to_owned(), Provisions::default()),
        Some(word) if word == "launch" => launch_and_serve(),
        // Shows trees of the host to an engine, outside any wall.
        Some(word) if word == "lend" => match lend() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => or_report(Err(error)),
        },
        // In a wall without our launcher: two descriptors, and the guest opens the listeners.
        Some(word) if word == "stdio" => serve_on_stdio(words),
        // A stub of the hardened image reports the command whose name it has.
        Some(word) if word == "denied" => report_denied(words),
        // The first process of a virtual machine: its standard streams are the console.
        Some(word) if word == "machine" => {
            let disk = words.next().is_some_and(|word| word == MACHINE_DISK);
            or_report(serve_machine(if disk { MachineRoot::Disk } else { MachineRoot::Image }))
        }
        Some(_) => GuestExit::Unprepared.into(),
    }
}

/// Receives a plan on the control socket on standard input. The first process inside then serves
/// the stream on standard output.
fn launch_and_serve() -> ExitCode {
    let control = match take_control() {
        Ok(control) => UnixStream::from(control),
        Err(error) => {
            if let Ok(control) = io::stdin().as_fd().try_clone_to_owned() {
                refuse(UnixStream::from(control), "take_control", &error);
            }
            return GuestExit::Unprepared.into();
        }
    };
    match launch(control) {
        Launched::Done(code) => code.into(),
        Launched::Inside(provisions) => serve_on(take_stream(), provisions),
        Launched::Confined { lifeline, leaves } => match take_stream() {
            Ok(stream) => serve_confined(stream, lifeline, leaves).into(),
            Err(_) => GuestExit::Stream.into(),
        },
    }
}

/// Serves standard input and output, and arranges what the arguments name.
fn serve_on_stdio(words: impl Iterator<Item = OsString>) -> ExitCode {
    let own = words.map(OsString::into_string).collect::<Result<Vec<_>, _>>();
    let Some(own) = own.ok().and_then(Own::parse) else { return GuestExit::Unprepared.into() };
    let served = || {
        if own.names_kernel {
            let kernel = rustix::system::uname();
            let [release, version] = [kernel.release(), kernel.version()];
            let [release, version] = [release, version].map(std::ffi::CStr::to_string_lossy);
            // Before any program runs: the builder of the wall reads which kernel this is.
            writeln!(io::stderr(), "stockade-guest: kernel {release} {version}")?;
        }
        let reader = io::stdin().as_fd().try_clone_to_owned()?;
        let writer = io::stdout().as_fd().try_clone_to_owned()?;
        serve_on_pair(reader, writer, own, Vec::new())
    };
    or_report(served())
}

/// The exit code; the builder of the wall reads the reason of a failure from standard error.
fn or_report(served: io::Result<GuestExit>) -> ExitCode {
    served.map_or_else(
        |error| {
            let _ = writeln!(io::stderr(), "stockade-guest: {error}");
            GuestExit::Unprepared.into()
        },
        ExitCode::from,
    )
}

/// Moves the stream away from standard output.
fn take_stream() -> io::Result<OwnedFd> {
    let stream = io::stdout().as_fd().try_clone_to_owned();
    let _ = rustix::stdio::dup2_stdout(rustix::stdio::stdin());
    stream
}

/// Moves the control socket away from standard input, and closes all other inherited descriptors.
fn take_control() -> io::Result<OwnedFd> {
    stockade_sys::close_inherited_from(3)?;
    let control = io::stdin().as_fd().try_clone_to_owned()?;
    let nothing =
        rustix::fs::openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&nothing)?;
    Ok(control)
}

fn serve_on(stream: io::Result<OwnedFd>, provisions: Provisions) -> ExitCode {
    match stream {
        Ok(stream) => serve(stream, provisions).into(),
        Err(_) => GuestExit::Stream.into(),
    }
}
