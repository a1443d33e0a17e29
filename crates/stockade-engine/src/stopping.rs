//! Requests to stop a program before its end.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::future::BoxFuture;

use crate::record::Record;

/// Who asks to stop a program before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Caller,
    /// The record cannot be written, so nothing may run any longer.
    Record,
}

/// Resolves when the caller cancels, or when the record cannot be written. Awaited again after the
/// caller cancelled, it resolves only for the record.
pub(crate) struct Stopping<'s> {
    cancel: Option<BoxFuture<'s, ()>>,
    record: Option<BoxFuture<'s, ()>>,
}

impl<'s> Stopping<'s> {
    pub(crate) fn new(
        cancel: impl Future<Output = ()> + Send + 's,
        record: &'s Record,
    ) -> Stopping<'s> {
        Stopping { cancel: Some(Box::pin(cancel)), record: Some(Box::pin(record.failed())) }
    }
}

impl Future for Stopping<'_> {
    type Output = Asked;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Asked> {
        // The record first: a program that is not recorded has no grace.
        let record = self.record.as_mut().map(|record| record.as_mut().poll(context));
        if record.is_none_or(|record| record.is_ready()) {
            self.record = None;
            return Poll::Ready(Asked::Record);
        }
        match self.cancel.as_mut().map(|cancel| cancel.as_mut().poll(context)) {
            Some(Poll::Ready(())) => {
                self.cancel = None;
                Poll::Ready(Asked::Caller)
            }
            _ => Poll::Pending,
        }
    }
}
