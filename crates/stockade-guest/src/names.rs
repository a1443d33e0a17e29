//! DNS queries that arrive by UDP. The guest sends all of them through one stream, framed as over
//! TCP, and the answers come back in the same order.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::SocketAddrV4;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use futures_util::io::{AsyncRead, AsyncWrite};
use rustix::net::{RecvFlags, SendFlags, recvfrom, sendto};
use stockade_wire::Opening;
use yamux::Stream;

use crate::listeners::SyntheticListeners;
use crate::opener::Opener;
use crate::reactor::{Descriptor, Direction};

/// The longest query; names have at most 255 bytes, and the other fields are short.
const MAX_QUESTION_BYTES: usize = 4096;
/// The maximum number of unanswered queries. More wait in the socket, and the kernel drops those
/// that do not fit.
const MAX_OUTSTANDING: usize = 64;

/// Forwards queries while the guest runs. Queries on a stream that ends are lost, and the next
/// query opens another stream.
pub(crate) async fn serve(
    socket: Descriptor,
    opener: Opener,
    synthetic: Option<Rc<SyntheticListeners>>,
) {
    loop {
        let (asker, question) = poll_fn(|context| poll_question(&socket, context)).await;
        let Some(stream) = opener.open(Opening::Names, None).await else { continue };
        let id = stream.id().val();
        let mut names = Names::new(stream, synthetic.clone());
        names.ask(asker, &question);
        poll_fn(|context| names.poll(&socket, context)).await;
        opener.ends.borrow_mut().release(id, false);
    }
}

/// The queries on one stream.
struct Names {
    stream: Stream,
    /// The senders of the unanswered queries, in order.
    askers: VecDeque<SocketAddrV4>,
    outgoing: Vec<u8>,
    sent: usize,
    incoming: Vec<u8>,
    synthetic: Option<Rc<SyntheticListeners>>,
}

impl Names {
    fn new(stream: Stream, synthetic: Option<Rc<SyntheticListeners>>) -> Names {
        Names {
            stream,
            synthetic,
            askers: VecDeque::new(),
            outgoing: Vec::new(),
            sent: 0,
            incoming: Vec::new(),
        }
    }

    fn ask(&mut self, asker: SocketAddrV4, question: &[u8]) {
        // `MAX_QUESTION_BYTES` fits in 16 bits.
        let length = question.len() as u16;
        self.outgoing.extend(length.to_be_bytes());
        self.outgoing.extend(question);
        self.askers.push_back(asker);
    }

    /// Ready when the stream has ended.
    fn poll(&mut self, socket: &Descriptor, context: &mut Context<'_>) -> Poll<()> {
        if self.poll_answers(socket, context).is_ready() {
            return Poll::Ready(());
        }
        loop {
            if self.poll_send(context).is_ready() {
                return Poll::Ready(());
            }
            if self.sent < self.outgoing.len() || self.askers.len() >= MAX_OUTSTANDING {
                return Poll::Pending;
            }
            let (asker, question) = ready!(poll_question(socket, context));
            self.ask(asker, &question);
        }
    }

    /// Sends the queued queries. Ready when the stream accepts no more.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.sent < self.outgoing.len() {
            let stream = Pin::new(&mut self.stream);
            match ready!(stream.poll_write(context, &self.outgoing[self.sent..])) {
                Ok(written) => self.sent += written,
                Err(_) => return Poll::Ready(()),
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        Poll::Pending
    }

    /// Sends answers to their askers. Ready when no more can come.
    fn poll_answers(&mut self, socket: &Descriptor, context: &mut Context<'_>) -> Poll<()> {
        let mut piece = [0; MAX_QUESTION_BYTES];
        loop {
            match ready!(Pin::new(&mut self.stream).poll_read(context, &mut piece)) {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(read) => self.incoming.extend(&piece[..read]),
            }
            while let Some((length, rest)) = self.incoming.split_first_chunk() {
                let length = usize::from(u16::from_be_bytes(*length));
                let Some(answer) = rest.get(..length) else { break };
                // An answer without a query breaks the order, and ends the stream.
                let Some(asker) = self.askers.pop_front() else { return Poll::Ready(()) };
                if let Some(synthetic) = &self.synthetic {
                    synthetic.answered(answer);
                }
                // An answer that cannot be sent is lost, as on any network, and the program asks
                // again.
                let _ = sendto(socket, answer, SendFlags::DONTWAIT, &asker);
                self.incoming.drain(..2 + length);
            }
        }
    }
}

/// The next query and its sender. Drops datagrams that are too long.
fn poll_question(socket: &Descriptor, context: &mut Context<'_>) -> Poll<(SocketAddrV4, Vec<u8>)> {
    let mut room = [0; MAX_QUESTION_BYTES];
    loop {
        let received = ready!(socket.attempt(context, Direction::Read, || {
            let (_, length, asker) = recvfrom(socket, &mut room[..], RecvFlags::TRUNC)?;
            Ok((length, asker))
        }));
        // A datagram that could not be received is lost, as on any network.
        let Ok((length, asker)) = received else { continue };
        let asker = asker.and_then(|asker| SocketAddrV4::try_from(asker).ok());
        if let (Some(asker), Some(question)) = (asker, room.get(..length)) {
            return Poll::Ready((asker, question.to_vec()));
        }
    }
}
