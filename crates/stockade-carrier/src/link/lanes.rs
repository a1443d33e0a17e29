//! Pipes beside streams, through which much goes to a program.
//!
//! The host makes each of them and keeps its writing end; the guest gets the reading end, and
//! nothing comes back by it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::write;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use stockade_provider::{OpenLane, OpensLane};
use stockade_wire::Lane;
use tokio::sync::oneshot;

use super::ledger::{Beside, Ledger};

/// The size of a pipe in memory of programs. What comes from a socket takes one of its pages for
/// each piece, however large.
const PIPE_BYTES: usize = 256 << 10;

/// Opens the lane of one stream.
#[derive(Debug)]
pub(super) struct LaneOf {
    pub(super) ledger: Arc<Ledger>,
    pub(super) stream: u32,
    /// How many bytes were said on the stream.
    pub(super) said: Arc<AtomicU64>,
}

impl OpensLane for LaneOf {
    fn open(&self) -> io::Result<OpenLane> {
        let (inside, outside) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Refused to a user with too many pipes, pipe(7), and a small one is no faster.
        fcntl_setpipe_size(&outside, PIPE_BYTES)?;
        let lane = Lane { stream: self.stream, after: self.said.load(Ordering::Relaxed) };
        // An empty pipe takes so little at once.
        write(&outside, &lane.to_bytes())?;
        let (told, hear) = oneshot::channel();
        self.ledger.send_beside(Beside { descriptor: inside, told });
        // A link that ends tells nobody anything.
        let told = Box::pin(async { hear.await.unwrap_or(false) });
        Ok(OpenLane { pipe: outside, told })
    }
}
