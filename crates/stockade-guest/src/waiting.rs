//! Streams of executions that have arrived but are not used yet.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use stockade_wire::{Role, StreamHeader};
use yamux::Stream;

/// Streams by execution and role. The host opens them and bounds their number.
#[derive(Clone, Default)]
pub(crate) struct WaitingStreams {
    table: Rc<RefCell<Table>>,
}

#[derive(Default)]
struct Table {
    streams: HashMap<StreamHeader, Stream>,
    wakers: Vec<Waker>,
}

impl WaitingStreams {
    pub(crate) fn arrived(&self, header: StreamHeader, stream: Stream) {
        let mut table = self.table.borrow_mut();
        table.streams.insert(header, stream);
        table.wakers.drain(..).for_each(Waker::wake);
    }

    /// Waits for the stream of an execution.
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
