//! `stockade create`: starts the supervisor of a session, and waits until the session can be used.
//!
//! ```text
//! create ── argv, terms ──▶ supervisor: setsid, parses argv, claims the name, opens the session
//!        ◀── SessionView ── it is usable; its standard streams are /dev/null from here on
//!        ◀── end of file ── it failed, and has printed why on our standard streams
//! ```
//! If `create` ends first, the supervisor sees the end of the stream and gives up. The session of a
//! [tethered](Terms::is_tethered) supervisor ends with that stream also later.

use std::ffi::OsString;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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
use super::terms::Terms;
use crate::args::{CreateArgs, SandboxArgs};
use crate::render::{self, Output};
use crate::run::account::Named;
use crate::{ERROR, Problem, invocation, load};

pub(crate) fn create(output: Output, args: &CreateArgs) -> anyhow::Result<u8> {
    // The supervisor checks this too, but nothing is started for a mistake.
    if let Some(name) = &args.name {
        SessionName::parse(name).map_err(|error| refused(&error))?;
    }
    load::refuse_shared_input(args.sandbox.texts())?;
    let view = match started(args, &invocation::arguments())? {
        Ok(view) => view,
        Err(code) => return Ok(code),
    };
    match output {
        Output::Json => render::json(&view)?,
        Output::Text => render::text(&format!("{}\n", view.name))?,
    }
    Ok(0)
}

/// Starts a supervisor with these arguments, and waits until the session can be used. The inner
/// error is the exit code of a supervisor that has printed why it failed.
pub(crate) fn started(
    args: &CreateArgs,
    words: &[OsString],
) -> anyhow::Result<Result<SessionView, u8>> {
    let stdin = io::stdin();
    let reads_input = args.sandbox.texts().any(load::is_standard_input);
    let descriptor = reads_input.then(|| stdin.as_fd());
    let start = Start { argv: words, terms: &Terms::default(), descriptor };
    let (child, mut answer) = start.supervisor(&args.sandbox, |command| command)?;
    let mut text = Vec::new();
    // A supervisor that was killed may reset the connection; its exit status has more detail.
    let _ = answer.read_to_end(&mut text);
    match serde_json::from_slice::<SessionView>(&text) {
        Ok(view) => Ok(Ok(view)),
        Err(_) => failed(child).map(Err),
    }
}

/// What a supervisor receives.
pub(crate) struct Start<'a> {
    /// The command line that describes the session.
    pub(crate) argv: &'a [OsString],
    /// What is not in the command line.
    pub(crate) terms: &'a Terms,
    /// The standard input of the supervisor, if its arguments name that.
    pub(crate) descriptor: Option<BorrowedFd<'a>>,
}

impl Start<'_> {
    /// Starts this program as a supervisor. The request goes through a socket, its standard input:
    /// the arguments and variables of a process are visible to other processes.
    pub(crate) fn supervisor(
        &self,
        sandbox: &SandboxArgs,
        streams: impl FnOnce(&mut Command) -> &mut Command,
    ) -> anyhow::Result<(Child, UnixStream)> {
        let started = || {
            // The supervisor lives longer than the caller's pipes and locks may.
            let files: Vec<&Path> = sandbox.texts().collect();
            Named { variables: &[], files }.close_other_descriptors()?;
            let (ours, theirs) = UnixStream::pair()?;
            let mut command = invocation::again();
            command.arg("__supervise").stdin(Stdio::from(OwnedFd::from(theirs)));
            let child = streams(&mut command).spawn()?;
            // Only the supervisor holds the other end from here on.
            drop(command);
            self.send(&ours)?;
            io::Result::Ok((child, ours))
        };
        Ok(started().map_err(|error| {
            let message = format!("cannot start the supervisor of the session: {error}");
            let remedy = "check how many processes and files you may have, with `ulimit -a`";
            Problem::new(message, remedy)
        })?)
    }

    /// Sends the length of the arguments, with the descriptor as ancillary data, then the
    /// arguments, each with a zero byte after it, and then the terms with their length.
    fn send(&self, socket: &UnixStream) -> io::Result<()> {
        let mut argv = Vec::new();
        for argument in self.argv {
            argv.extend_from_slice(OsString::as_os_str(argument).as_bytes());
            argv.push(0);
        }
        let descriptors: Vec<BorrowedFd<'_>> = self.descriptor.into_iter().collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        let head = length(&argv)?;
        sendmsg(socket, &[IoSlice::new(&head)], &mut ancillary, SendFlags::NOSIGNAL)?;
        let terms = serde_json::to_vec(self.terms)?;
        let mut socket = socket;
        socket.write_all(&argv)?;
        socket.write_all(&length(&terms)?)?;
        socket.write_all(&terms)
    }
}

fn length(bytes: &[u8]) -> io::Result<[u8; 4]> {
    let length = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::ArgumentListTooLong)?;
    Ok(length.to_le_bytes())
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
