//! The process that holds a session; `create` starts it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::Arc;
use std::time::SystemTime;

use clap::Parser;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use stockade_backends::HostProcess;
use stockade_engine::{Engine, Passage, Session};
use stockade_provider::EntryProgram;
use stockade_supervisor::{Activity, Claimed, Origin, SessionName, StateError, Supervisor};
use tokio::io::AsyncReadExt;
use tokio::runtime::Builder;

use super::client::{refused, state};
use super::terms::Terms;
use crate::args::{Cli, Command, CreateArgs};
use crate::render::{self, Output};
use crate::run::image::{self, Messages, OwnProgramUse};
use crate::run::interrupt::Interrupts;
use crate::run::request::{self, Extras, ImageChoice};
use crate::run::trouble;
use crate::state::origin;
use crate::{ERROR, Problem};

/// The maximum size of all arguments, and of the terms; the kernel's own limit of arguments is
/// lower.
const MOST_ARGUMENTS: usize = 16 << 20;

/// Holds a session until it ends. Returns the exit code; errors are printed.
pub(crate) fn supervise() -> u8 {
    // Freed memory goes back to the kernel: an idle session should cost little.
    stockade_sys::keep_freed_memory(64 << 10);
    let Ok((socket, argv, terms)) = receive() else {
        let message = "this command is started by `stockade create` and by nothing else";
        render::failure(Output::Text, &Problem::new(message, "use `stockade create`").into());
        return ERROR;
    };
    let (args, output) = match Cli::try_parse_from(&argv) {
        Ok(cli) => {
            let output = cli.output();
            match cli.command {
                Command::Create(args) => (*args, output),
                #[cfg(feature = "mcp")]
                Command::Mcp(args) => (args.created(), output),
                _ => return ERROR,
            }
        }
        Err(_) => return ERROR,
    };
    match hold(args, terms, socket) {
        Ok(()) => 0,
        Err(error) => {
            // Standard error is /dev/null once the session exists.
            render::failure(output, &error);
            ERROR
        }
    }
}

/// Receives the request, and leaves the terminal, process group and session of the caller.
fn receive() -> io::Result<(UnixStream, Vec<OsString>, Terms)> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut head = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
    let got = recvmsg(&socket, &mut [IoSliceMut::new(&mut head)], &mut ancillary, flags)?;
    if got.bytes != head.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut input: Option<OwnedFd> = None;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            input = descriptors.last();
        }
    }
    let argv = part(&socket, head)?;
    (&socket).read_exact(&mut head)?;
    let terms: Terms = serde_json::from_slice(&part(&socket, head)?)?;
    rustix::process::setsid()?;
    match input {
        Some(input) => dup2_stdin(input)?,
        None => dup2_stdin(null()?)?,
    }
    let argv = argv.strip_suffix(&[0]).unwrap_or(&argv);
    let argv = argv.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec()));
    Ok((socket, argv.collect(), terms))
}

/// Receives as many bytes as the header states.
fn part(mut socket: &UnixStream, head: [u8; 4]) -> io::Result<Vec<u8>> {
    let length = usize::try_from(u32::from_le_bytes(head)).unwrap_or(usize::MAX);
    if length > MOST_ARGUMENTS {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    socket.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn null() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/null")
}

/// Claims the name, opens the session, reports it, and serves it.
fn hold(mut args: CreateArgs, terms: Terms, socket: UnixStream) -> anyhow::Result<()> {
    let cannot = |error: io::Error| {
        let message = format!("cannot wait for clients of a session: {error}");
        Problem::new(message, "check how many files may be open, with `ulimit -n`")
    };
    args.sandbox.flags.ttl = args.ttl.take();
    args.sandbox.flags.idle = args.idle.take();
    let source = args.from_checkpoint.as_deref().map(origin::load).transpose()?;
    if let Some(source) = &source {
        origin::apply(&source.checkpoint, &mut args.sandbox)?;
    }
    let surroundings = request::surroundings(&args.sandbox)?;
    let containers = request::containers(&args.sandbox)?;
    let providers =
        stockade_backends::providers(HostProcess::Continues, &surroundings, &containers);
    let engine = Engine::new(providers);
    let messages = Messages::Shown;
    let image = image::find(&args.sandbox, &containers, OwnProgramUse::Never, messages)?;
    let activity = Arc::new(Activity::new(!args.sandbox.no_record));
    let observed = Arc::clone(&activity);
    let extras = Extras {
        narrowing: terms.narrowing,
        observer: Some(Box::new(move |event| observed.observe(event))),
    };
    let entry = entry(&args);
    let choice = ImageChoice { found: image.as_ref(), entry: &entry, messages };
    let (mut session, offered) = request::session(&args.sandbox, choice, Passage::Allowed, extras)?;
    let recipe = origin::of(&args.sandbox, &session, &offered)?;
    let ancestors = source.as_ref().map(origin::Source::ancestors).unwrap_or_default();
    let kept = Origin { ancestors, recipe };
    let created = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let created = created.map_or(0, |since| since.as_secs());
    // Before anything of the sandbox exists: what a dead supervisor leaves has a name.
    let claimed = claim(terms.name.as_deref().or(args.name.as_deref()), created)?;
    crate::run::reserve_descriptors().map_err(cannot)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    let interrupts = Interrupts::wanted();
    let served: anyhow::Result<()> = runtime.block_on(async {
        let mut interrupted = pin!(interrupts.come().map_err(cannot)?);
        let mut left = pin!(left(socket.try_clone().map_err(cannot)?).map_err(cannot)?);
        let tools = tokio::select! {
            biased;
            () = &mut interrupted => return Err(stopped().into()),
            () = &mut left => return Err(stopped().into()),
            tools = offered.start(&session.policy) => tools?,
        };
        session.tools = tools.clone();
        let cancel = async {
            tokio::select! {
                () = &mut interrupted => {}
                () = &mut left => {}
            }
        };
        let opened = engine.open(session, entry, cancel).await;
        let opened = match opened.map_err(|error| trouble::problem(&error)) {
            Ok(Some(session)) => {
                let filled = match &source {
                    Some(source) => source.fill(&session).await,
                    None => Ok(()),
                };
                if let Err(problem) = filled {
                    session.kill().await;
                    let _ = session.end("failed").await;
                    return Err(problem.into());
                }
                let held = Held { session, activity, claimed, created, origin: kept };
                if terms.is_tethered {
                    let ended = async {
                        tokio::select! {
                            () = interrupted => {}
                            () = left => {}
                        }
                    };
                    serve(held, socket, Shutdown::Write, ended).await
                } else {
                    serve(held, socket, Shutdown::Both, interrupted).await
                }
            }
            Ok(None) => Err(stopped().into()),
            Err(problem) => Err(problem.into()),
        };
        tools.end().await;
        opened
    });
    // A task may hold what is left of the sandbox; dropping it ends that.
    runtime.shutdown_timeout(std::time::Duration::from_secs(5));
    served
}

/// An open session.
struct Held {
    session: Session,
    activity: Arc<Activity>,
    claimed: Claimed,
    created: u64,
    /// What a checkpoint keeps of how the session was made.
    origin: Origin,
}

/// Reports that the session can be used, closes these directions of the creator's stream, and
/// serves the session to its end.
async fn serve(
    held: Held,
    mut socket: UnixStream,
    closed: Shutdown,
    ended: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let Held { session, activity, claimed, created, origin } = held;
    let listener = claimed.listen().map_err(|error| refused(&error))?;
    let supervisor = Supervisor::new(session, activity, claimed, listener, created, origin)
        .map_err(|error| {
            let message = format!("cannot listen for clients of the session: {error}");
            Problem::new(message, "check how many files may be open, with `ulimit -n`")
        })?;
    let view = serde_json::to_vec(&supervisor.view())?;
    let detached = || -> io::Result<()> {
        let null = null()?;
        dup2_stdin(&null)?;
        dup2_stdout(&null)?;
        dup2_stderr(&null)?;
        rustix::process::chdir("/")?;
        Ok(())
    };
    detached().map_err(|error| {
        let message = format!("cannot leave the caller's streams and directory: {error}");
        Problem::new(message, "see that /dev/null is there and can be written")
    })?;
    socket.set_nonblocking(false)?;
    // Fails if `create` was killed just now; the session then exists without an answer, and
    // `stockade ls` shows it.
    let _ = socket.write_all(&view);
    // The stream has a second descriptor here, which watched `create` until now.
    let _ = socket.shutdown(closed);
    // The tether is another descriptor of the same stream.
    socket.set_nonblocking(true)?;
    drop((socket, view));
    // Most of what the start used is never used again.
    stockade_sys::release_memory();
    supervisor.serve(ended).await.map_err(|error| trouble::problem(&error))?;
    Ok(())
}

/// Claims the requested name, or a random one.
fn claim(name: Option<&str>, created: u64) -> anyhow::Result<Claimed> {
    let state = state()?;
    let Some(name) = name else {
        loop {
            let name = SessionName::random()?;
            match state.claim(&name, created) {
                Err(StateError::Taken { .. }) => {}
                claimed => return Ok(claimed.map_err(|error| refused(&error))?),
            }
        }
    };
    let name = SessionName::parse(name).map_err(|error| refused(&error))?;
    Ok(state.claim(&name, created).map_err(|error| refused(&error))?)
}

/// Resolves when `create` has ended.
fn left(socket: UnixStream) -> io::Result<impl Future<Output = ()> + Send> {
    socket.set_nonblocking(true)?;
    let mut socket = tokio::net::UnixStream::from_std(socket)?;
    Ok(async move {
        // It sends nothing more.
        let _ = socket.read_u8().await;
    })
}

fn stopped() -> Problem {
    Problem::new("stopped while the session was created", "create it again")
}

/// The program whose interpreter is made available: Python, if this host has one.
fn entry(args: &CreateArgs) -> EntryProgram {
    let is_executable = |directory: std::path::PathBuf| {
        ["python3", "python"].iter().any(|name| directory.join(name).is_file())
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has_python = args.sandbox.python.is_some()
        || std::env::var_os("VIRTUAL_ENV").is_some()
        || std::env::split_paths(&path).any(is_executable);
    EntryProgram::Program(if has_python { "python3" } else { "sh" }.to_owned())
}
