//! Connections to supervisors.

use std::time::Duration;

use stockade_api::{Failure, Frame, FrameError, Reply, Request, read_frame, write_frame};
use stockade_provider::chain;
use stockade_supervisor::{
    ClientError, Listed, SessionName, State, StateError, connect as connect_to, state_directory,
};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::Problem;

/// How long a supervisor may take to answer a request that it answers at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// A runtime on this thread.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    let cannot = |error: std::io::Error| {
        let message = format!("cannot wait for the answer of a session: {error}");
        Problem::new(message, "check how many files may be open, with `ulimit -n`")
    };
    crate::run::reserve_descriptors().map_err(cannot)?;
    Ok(Builder::new_current_thread().enable_all().build().map_err(cannot)?)
}

/// The sessions of this user.
pub(crate) fn state() -> anyhow::Result<State> {
    let directory = state_directory(|name| std::env::var_os(name));
    Ok(State::open(&directory).map_err(|error| refused(&error))?)
}

/// The error for state that cannot be used.
pub(crate) fn refused(error: &StateError) -> Problem {
    Problem::new(chain(error), error.remedy())
}

/// Every session with a supervisor.
pub(crate) fn listed() -> anyhow::Result<Vec<Listed>> {
    Ok(state()?.list().map_err(|error| refused(&error))?)
}

/// Connects to a session and sends a request. Must be called in a runtime.
pub(crate) async fn open(name: &str, request: Request) -> anyhow::Result<UnixStream> {
    let mut stream = connect(name)?;
    match write_frame(&mut stream, &Frame::Request(request)).await {
        Ok(()) => Ok(stream),
        Err(FrameError::TooLong { .. }) => {
            let message = format!("cannot send the request to session {name}: it is too long");
            Err(Problem::new(message, "pass long arguments and values as files").into())
        }
        Err(error) => Err(lost(name, &error).into()),
    }
}

fn connect(name: &str) -> anyhow::Result<UnixStream> {
    let parsed = SessionName::parse(name).map_err(|error| refused(&error))?;
    let socket = state()?.socket(&parsed).map_err(|error| refused(&error))?;
    Ok(connect_to(&socket).map_err(|error| unreachable(name, &error))?)
}

fn unreachable(name: &str, error: &ClientError) -> Problem {
    use std::io::ErrorKind::{ConnectionRefused, NotFound};
    match error.source.kind() {
        NotFound | ConnectionRefused => Problem::new(
            format!("session {name} is being created or is ending"),
            "try again; `stockade ls` shows its state",
        ),
        _ => Problem::new(chain(error), format!("end it with `stockade rm -f {name}`")),
    }
}

/// The error for a supervisor that went away.
pub(crate) fn lost(name: &str, error: &FrameError) -> Problem {
    let message = format!("session {name} ended before it answered: {}", chain(error));
    Problem::new(message, "see which sessions there are, with `stockade ls`")
}

/// Sends a request, and receives its only reply.
pub(crate) async fn ask(name: &str, request: Request) -> anyhow::Result<Reply> {
    let asked = async {
        let mut stream = open(name, request).await?;
        reply(&mut stream, name).await
    };
    match timeout(PATIENCE, asked).await {
        Ok(reply) => reply,
        Err(_) => Err(silent(name).into()),
    }
}

/// The error for a supervisor that does not answer.
pub(crate) fn silent(name: &str) -> Problem {
    let message =
        format!("session {name} does not answer: its supervisor took more than {PATIENCE:?}");
    Problem::new(message, format!("end it with `stockade rm -f {name}`"))
}

/// Receives a reply. A failure of the supervisor becomes an error.
pub(crate) async fn reply(stream: &mut UnixStream, name: &str) -> anyhow::Result<Reply> {
    match read_frame(stream).await {
        Ok(Frame::Reply(Reply::Failed(failure))) => Err(failed(failure).into()),
        Ok(Frame::Reply(reply)) => Ok(reply),
        Ok(_) => Err(confused(name).into()),
        Err(error) => Err(lost(name, &error).into()),
    }
}

pub(crate) fn failed(Failure { message, remedy }: Failure) -> Problem {
    Problem::new(message, remedy)
}

/// The error for a reply that does not answer the request.
pub(crate) fn confused(name: &str) -> Problem {
    let message = format!("the supervisor of session {name} sent an unexpected reply");
    Problem::new(message, "use the version of Stockade that created the session")
}
