//! `stockade create`: starts the supervisor of a session, and waits until the session can be used.
//!
//! ```text
//! create ── argv ──▶ supervisor: setsid, parses argv, claims the name, opens the session
//!        ◀── SessionView ── it is usable; its standard streams are /dev/null from here on
//!        ◀── end of file ── it failed, and has printed why on our standard streams
//! ```
//! If `create` ends first, the supervisor sees the end of the stream and gives up.

use std::ffi::OsString;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use stockade_api::SessionView;
use stockade_engine::signal_name;
use stockade_supervisor::SessionName;

use super::client::refused;
use crate::args::CreateArgs;
use crate::render::{self, Output};
use crate::run::account::Named;
use crate::{ERROR, Problem, load};

pub(crate) fn create(output: Output, args: &CreateArgs) -> anyhow::Result<u8> {
    // The supervisor checks this too, but nothing is started for a mistake.
    if let Some(name) = &args.name {
        SessionName::parse(name).map_err(|error| refused(&error))?;
    }
    load::refuse_shared_input(args.sandbox.texts())?;
    let (child, mut answer) = start(args).map_err(|error| {
        let message = format!("cannot start the supervisor of the session: {error}");
        Problem::new(message, "check how many processes and files you may have, with `ulimit -a`")
    })?;
    let mut text = Vec::new();
    // A supervisor that was killed may reset the connection; its exit status says more.
    let _ = answer.read_to_end(&mut text);
    let Ok(view) = serde_json::from_slice::<SessionView>(&text) else {
        return failed(child);
    };
    match output {
        Output::Json => render::json(&view)?,
        Output::Text => render::text(&format!("{}\n", view.name))?,
    }
    Ok(0)
}

/// Starts this program as a supervisor. The request goes through a socket, its standard input: the
/// arguments and variables of a process are visible to other processes.
fn start(args: &CreateArgs) -> io::Result<(Child, UnixStream)> {
    // The supervisor lives longer than the caller's pipes and locks may.
    let files: Vec<&Path> = args.sandbox.texts().collect();
    Named { variables: &[], files }.close_other_descriptors()?;
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg("__supervise").stdin(Stdio::from(OwnedFd::from(theirs)));
    let child = command.spawn()?;
    // Only the supervisor holds the other end from here on.
    drop(command);
    let reads_input = args.sandbox.texts().any(load::is_standard_input);
    send(&ours, reads_input)?;
    Ok((child, ours))
}

/// Sends the length of the arguments, with our standard input as ancillary data if the supervisor
/// must read it, and then the arguments, each with a zero byte after it.
fn send(socket: &UnixStream, reads_input: bool) -> io::Result<()> {
    let mut argv = Vec::new();
    for argument in std::env::args_os() {
        argv.extend_from_slice(OsString::as_os_str(&argument).as_bytes());
        argv.push(0);
    }
    let length = u32::try_from(argv.len()).map_err(|_| io::ErrorKind::ArgumentListTooLong)?;
    let stdin = io::stdin();
    let descriptors = [stdin.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if reads_input {
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let head = length.to_le_bytes();
    sendmsg(socket, &[IoSlice::new(&head)], &mut ancillary, SendFlags::NOSIGNAL)?;
    let mut socket = socket;
    socket.write_all(&argv)
}

/// The exit code of a supervisor that failed and printed why, or the error if it could not.
fn failed(mut child: Child) -> anyhow::Result<u8> {
    let status = child.wait().ok();
    if status.is_some_and(|status| status.code() == Some(i32::from(ERROR))) {
        return Ok(ERROR);
    }
    let why = match status.and_then(|status| status.signal()) {
        Some(signal) => format!("{} killed it", signal_name(signal)),
        None => "it ended early".to_owned(),
    };
    let message = format!("the supervisor of the session failed before the session existed: {why}");
    Err(Problem::new(message, "try again; nothing of the session is left").into())
}
