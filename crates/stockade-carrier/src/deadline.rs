//! A stream with one deadline for everything said on it.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A socket whose reads and writes together end by a fixed moment.
///
/// A timeout per call would let the other end stretch the whole by sending a byte at a time.
pub(crate) struct DeadlineStream {
    socket: UnixStream,
    deadline: Instant,
}

impl DeadlineStream {
    pub(crate) fn new(socket: UnixStream, deadline: Instant) -> DeadlineStream {
        DeadlineStream { socket, deadline }
    }

    fn time_left(&self) -> io::Result<Duration> {
        match self.deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(left),
        }
    }
}

impl Read for DeadlineStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.time_left()?))?;
        self.socket.read(buffer).map_err(timed_out)
    }
}

impl Write for DeadlineStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.time_left()?))?;
        self.socket.write(bytes).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// A socket timeout shows as EAGAIN, socket(7); to a reader that is a poor word for "too late".
fn timed_out(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn silent_peer_is_given_up_at_the_deadline() {
        let (host, _silent) = UnixStream::pair().unwrap();
        let deadline = Instant::now() + Duration::from_millis(30);
        let refused = DeadlineStream::new(host, deadline).read(&mut [0]).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        assert!(Instant::now() >= deadline);
    }

    #[test]
    fn peer_that_drips_bytes_does_not_move_the_deadline() {
        let (host, mut dripping) = UnixStream::pair().unwrap();
        let drip = thread::spawn(move || while dripping.write_all(b".").is_ok() {});
        let deadline = Instant::now() + Duration::from_millis(50);
        let mut stream = DeadlineStream::new(host, deadline);
        let refused = loop {
            if let Err(error) = stream.read(&mut [0]) {
                break error;
            }
        };
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        drop(stream);
        drip.join().unwrap();
    }
}
