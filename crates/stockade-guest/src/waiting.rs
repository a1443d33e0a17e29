//! Streams of executions that have arrived and were not asked for yet.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use stockade_wire::{Role, StreamHeader};
use yamux::Stream;

/// Streams by whose they are and what they carry. The host opens them and bounds their number.
#[derive(Clone, Default)]
pub(crate) struct Waiting {
    table: Rc<RefCell<Table>>,
}

#[derive(Default)]
struct Table {
    streams: HashMap<StreamHeader, Stream>,
    wakers: Vec<Waker>,
}

impl Waiting {
    pub(crate) fn arrived(&self, header: StreamHeader, stream: Stream) {
        let mut table = self.table.borrow_mut();
        table.streams.insert(header, stream);
        table.wakers.drain(..).for_each(Waker::wake);
    }

    /// The stream of an execution, once it has arrived.
    pub(crate) async fn take(&self, execution: u64, role: Role) -> Stream {
        let wanted = StreamHeader { execution, role };
        poll_fn(|context| {
            let mut table = self.table.borrow_mut();
            if let Some(stream) = table.streams.remove(&wanted) {
                return Poll::Ready(stream);
            }
            table.wakers.push(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}
