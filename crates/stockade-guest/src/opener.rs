//! Streams that the guest opens.

use std::cell::{OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use futures_channel::oneshot;
use futures_util::io::{AsyncRead, AsyncWrite};
use stockade_wire::{Ends, Opening, StreamOpening, write_message};
use yamux::{Connection, Stream};

use crate::callers::Callers;
use crate::splice::SplicePipes;

/// Tracks how the streams of connections end.
pub(crate) type SharedEnds = Rc<RefCell<Ends>>;

/// Requests streams from the task that owns the connection.
#[derive(Clone, Default)]
pub(crate) struct Opener {
    asked: Rc<RefCell<Asked>>,
    pub(crate) ends: SharedEnds,
    pub(crate) pipes: SplicePipes,
    /// Finds the executions of connections; set before any is accepted.
    pub(crate) callers: Rc<OnceCell<Callers>>,
}

#[derive(Default)]
struct Asked {
    senders: VecDeque<oneshot::Sender<Stream>>,
    /// Wakes the task that owns the connection.
    waker: Option<Waker>,
}

impl Opener {
    /// Opens a stream and sends `opening` on it, with the execution that it is for. Returns none when the connection accepts no more.
    pub(crate) async fn open(&self, opening: Opening, execution: Option<u64>) -> Option<Stream> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut asked = self.asked.borrow_mut();
            asked.senders.push_back(sender);
            if let Some(waker) = asked.waker.take() {
                waker.wake();
            }
        }
        let mut stream = receiver.await.ok()?;
        write_message(&mut stream, &StreamOpening { opening, execution }).await.ok()?;
        Some(stream)
    }

    /// Opens the requested streams, as far as the connection has room. Called before the connection
    /// is polled, because only that poll reads from a new stream.
    pub(crate) fn poll<T>(&self, context: &mut Context<'_>, connection: &mut Connection<T>)
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let mut asked = self.asked.borrow_mut();
        asked.waker = Some(context.waker().clone());
        while !asked.senders.is_empty() {
            match connection.poll_new_outbound(context) {
                Poll::Ready(Ok(stream)) => {
                    self.ends.borrow_mut().hold(stream.id().val());
                    if let Some(sender) = asked.senders.pop_front() {
                        // Fails if the requester was dropped; the stream is then dropped too.
                        let _ = sender.send(stream);
                    }
                }
                // The connection has ended: drop the requests.
                Poll::Ready(Err(_)) => asked.senders.clear(),
                Poll::Pending => break,
            }
        }
    }
}
