//! Streams that the guest opens.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use futures_channel::oneshot;
use futures_util::io::{AsyncRead, AsyncWrite};
use stockade_wire::{Ends, Opening, write_message};
use yamux::{Connection, Stream};

use crate::splice::SplicePipes;

/// How the streams of connections end, as their frames pass.
pub(crate) type SharedEnds = Rc<RefCell<Ends>>;

/// Asks the connection for streams; it is somebody else's, who answers when it can.
#[derive(Clone, Default)]
pub(crate) struct Opener {
    asked: Rc<RefCell<Asked>>,
    pub(crate) ends: SharedEnds,
    pub(crate) pipes: SplicePipes,
}

#[derive(Default)]
struct Asked {
    senders: VecDeque<oneshot::Sender<Stream>>,
    /// Wakes whoever has the connection.
    waker: Option<Waker>,
}

impl Opener {
    /// A new stream, on its way with what it is. None when the connection has no more.
    pub(crate) async fn open(&self, opening: Opening) -> Option<Stream> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut asked = self.asked.borrow_mut();
            asked.senders.push_back(sender);
            if let Some(waker) = asked.waker.take() {
                waker.wake();
            }
        }
        let mut stream = receiver.await.ok()?;
        write_message(&mut stream, &opening).await.ok()?;
        Some(stream)
    }

    /// Opens what was asked for, as far as the connection has room. Called before the connection is
    /// polled, which begins to listen to a new stream then.
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
                        // Whoever does not want it any more has let it go.
                        let _ = sender.send(stream);
                    }
                }
                // The connection has ended, and everything with it.
                Poll::Ready(Err(_)) => asked.senders.clear(),
                Poll::Pending => break,
            }
        }
    }
}
