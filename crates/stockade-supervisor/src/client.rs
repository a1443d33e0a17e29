//! Connects to the supervisor of a session.

use std::io;
use std::path::Path;

use tokio::net::UnixStream;

use crate::state::through_descriptor;

/// Why a session cannot be reached.
#[derive(Debug, thiserror::Error)]
#[error("cannot reach the supervisor of the session at {path}")]
pub struct ClientError {
    /// Its socket.
    pub path: String,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// Connects to a session's socket. Must be called in a tokio runtime.
pub fn connect(socket: &Path) -> Result<UnixStream, ClientError> {
    let connected =
        through_descriptor(socket, |path| std::os::unix::net::UnixStream::connect(path)).and_then(
            |stream| {
                stream.set_nonblocking(true)?;
                UnixStream::from_std(stream)
            },
        );
    connected.map_err(|source| ClientError { path: socket.display().to_string(), source })
}
