//! The client's two streams, which nothing but the protocol can reach.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::os::fd::{AsFd, OwnedFd};

use rmcp::RoleServer;
use rmcp::transport::async_rw::AsyncRwTransport;
use rustix::stdio::{dup2_stdin, dup2_stdout};
use tokio::sync::watch;

use crate::render::live::Live;
use crate::run::input::Input;

/// The maximum size of one message of the client.
const MOST_BYTES: usize = 16 << 20;

/// What a line that is too long becomes: the protocol answers it as an invalid request.
const TOO_LONG: &[u8] = b"{\"jsonrpc\":\"2.0\"}\n";

/// Becomes set when the client has disconnected.
#[derive(Clone)]
pub(super) struct Gone(watch::Sender<bool>);

impl Gone {
    pub(super) fn set(&self) {
        self.0.send_replace(true);
    }

    /// Resolves when the client has disconnected.
    pub(super) async fn wait(&self) {
        // `self` owns a sender, so the channel is open.
        let _ = self.0.subscribe().wait_for(|gone| *gone).await;
    }
}

/// Takes the streams of the client. Standard input is empty from here on and standard output is
/// standard error, for this process and everything it starts.
pub(super) fn of_client() -> io::Result<(Input, Live, Gone)> {
    let own = |stream: &dyn AsFd| -> io::Result<OwnedFd> {
        Ok(rustix::io::fcntl_dupfd_cloexec(stream.as_fd(), 3)?)
    };
    let (input, output) = (own(&io::stdin())?, own(&io::stdout())?);
    dup2_stdin(File::open("/dev/null")?)?;
    dup2_stdout(io::stderr())?;
    let gone = Gone(watch::Sender::new(false));
    let lines = Lines {
        from: BufReader::new(File::from(input)),
        line: Cursor::default(),
        gone: gone.clone(),
    };
    Ok((Input::new(Box::new(lines)), Live::to(Box::new(File::from(output))), gone))
}

/// Messages are lines. The length is bounded here too, with the same limit.
pub(super) fn transport(input: Input, output: Live) -> AsyncRwTransport<RoleServer, Input, Live> {
    AsyncRwTransport::new_server(input, output).with_max_line_length(MOST_BYTES + 1)
}

/// Reads whole lines up to a limit. A longer one is replaced, so that its sender gets an answer.
struct Lines<R> {
    from: BufReader<R>,
    line: Cursor<Vec<u8>>,
    gone: Gone,
}

impl<R: Read> Lines<R> {
    /// The next line; empty at the end.
    fn next(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        let mut is_too_long = false;
        loop {
            let limit = MOST_BYTES as u64 + 1 - line.len() as u64;
            let read = self.from.by_ref().take(limit).read_until(b'\n', &mut line)?;
            let is_whole = line.ends_with(b"\n");
            if read == 0 || is_whole {
                // An unfinished last line is no message.
                return Ok(match (is_whole, is_too_long) {
                    (true, true) => TOO_LONG.to_vec(),
                    (true, false) => line,
                    (false, _) => Vec::new(),
                });
            }
            is_too_long |= line.len() > MOST_BYTES;
            if is_too_long {
                line.clear();
            }
        }
    }
}

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.line.position() >= self.line.get_ref().len() as u64 {
            let next = self.next();
            if next.as_ref().map_or(true, Vec::is_empty) {
                self.gone.set();
            }
            self.line = Cursor::new(next?);
        }
        self.line.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: Vec<u8>) -> (Vec<u8>, bool) {
        let gone = Gone(watch::Sender::new(false));
        let mut lines = Lines {
            from: BufReader::new(Cursor::new(text)),
            line: Cursor::default(),
            gone: gone.clone(),
        };
        let mut out = Vec::new();
        lines.read_to_end(&mut out).unwrap();
        (out, *gone.0.borrow())
    }

    #[test]
    fn lines_pass_unchanged_and_the_end_is_noticed() {
        assert_eq!(read(b"a\n\nb\nrest".to_vec()), (b"a\n\nb\n".to_vec(), true));
    }

    #[test]
    fn line_that_is_too_long_becomes_an_invalid_request() {
        let long = vec![b'x'; MOST_BYTES + 1];
        let text = [b"a\n", &long[..], b"\nb\n", &long[1..MOST_BYTES], b"\n"].concat();
        let (out, _) = read(text);
        assert!(out.starts_with(b"a\n{\"jsonrpc\":\"2.0\"}\nb\nx"));
        assert_eq!(out.len(), 2 + TOO_LONG.len() + 2 + MOST_BYTES);
    }
}
