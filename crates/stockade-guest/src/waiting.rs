//! Streams that have arrived and not been asked for yet.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use stockade_wire::{Role, StreamHeader};
use yamux::Stream;

/// A bounded table of streams by whose they are and what they carry.
#[derive(Clone, Default)]
pub(crate) struct Waiting {
    table: Rc<RefCell<Table>>,
}

#[derive(Default)]
struct Table {
    streams: VecDeque<(StreamHeader, Stream)>,
    refused: VecDeque<u64>,
    wakers: Vec<Waker>,
}

impl Waiting {
    /// The most streams that wait; the oldest is closed for one more.
    const MAX_STREAMS: usize = 8;
    /// How many refused executions are remembered for streams that are still to come.
    const MAX_REFUSED: usize = 8;

    pub(crate) fn arrived(&self, header: StreamHeader, stream: Stream) {
        let mut table = self.table.borrow_mut();
        if table.refused.contains(&header.execution) {
            return;
        }
        if table.streams.len() == Waiting::MAX_STREAMS {
            table.streams.pop_front();
        }
        table.streams.push_back((header, stream));
        table.wakers.drain(..).for_each(Waker::wake);
    }

    /// The stream of an execution, once it has arrived.
    pub(crate) async fn take(&self, execution: u64, role: Role) -> Stream {
        let wanted = StreamHeader { execution, role };
        poll_fn(|context| {
            let mut table = self.table.borrow_mut();
            if let Some(at) = table.streams.iter().position(|(header, _)| *header == wanted)
                && let Some((_, stream)) = table.streams.remove(at)
            {
                return Poll::Ready(stream);
            }
            table.wakers.push(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Closes what has come and will come for an execution that is not run.
    pub(crate) fn refuse(&self, execution: u64) {
        let mut table = self.table.borrow_mut();
        table.streams.retain(|(header, _)| header.execution != execution);
        if table.refused.len() == Waiting::MAX_REFUSED {
            table.refused.pop_front();
        }
        table.refused.push_back(execution);
    }
}
