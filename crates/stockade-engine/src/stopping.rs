//! Requests to stop a program before its end.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::future::BoxFuture;

use crate::record::Record;

/// The caller's requests to cancel. Any future is one request.
pub struct Cancel<'c> {
    future: BoxFuture<'c, ()>,
    is_repeated: bool,
}

impl<'c> Cancel<'c> {
    /// Several requests: `poll` is called again after it was ready. The second one ends the grace of
    /// the first.
    pub fn repeated(poll: impl FnMut(&mut Context<'_>) -> Poll<()> + Send + 'c) -> Cancel<'c> {
        Cancel { future: Box::pin(poll_fn(poll)), is_repeated: true }
    }
}

impl<'c, F: Future<Output = ()> + Send + 'c> From<F> for Cancel<'c> {
    fn from(future: F) -> Cancel<'c> {
        Cancel { future: Box::pin(future), is_repeated: false }
    }
}

/// Who asks to stop a program before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Caller,
    /// The record cannot be written, so nothing may run any longer.
    Record,
}

/// Resolves when the caller cancels, or when the record cannot be written. Awaited again after the
/// caller cancelled, it resolves for the next request of the caller, if there can be one, and for
/// the record.
pub(crate) struct Stopping<'s> {
    cancel: Option<Cancel<'s>>,
    record: Option<BoxFuture<'s, ()>>,
}

impl<'s> Stopping<'s> {
    pub(crate) fn new(cancel: Cancel<'s>, record: &'s Record) -> Stopping<'s> {
        Stopping { cancel: Some(cancel), record: Some(Box::pin(record.failed())) }
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
        let Some(cancel) = &mut self.cancel else { return Poll::Pending };
        ready!(cancel.future.as_mut().poll(context));
        if !cancel.is_repeated {
            self.cancel = None;
        }
        Poll::Ready(Asked::Caller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(stopping: &mut Stopping<'_>) -> Poll<Asked> {
        Pin::new(stopping).poll(&mut Context::from_waker(std::task::Waker::noop()))
    }

    #[test]
    fn only_a_repeated_request_resolves_a_second_time() {
        let record = Record::of(None);
        let mut once = Stopping::new(std::future::ready(()).into(), &record);
        assert_eq!(asked(&mut once), Poll::Ready(Asked::Caller));
        assert_eq!(asked(&mut once), Poll::Pending);
        let mut twice = Stopping::new(Cancel::repeated(|_| Poll::Ready(())), &record);
        assert_eq!(asked(&mut twice), Poll::Ready(Asked::Caller));
        assert_eq!(asked(&mut twice), Poll::Ready(Asked::Caller));
    }
}
