//! Checks which messages the guest may send on the control stream, and when.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::io::AsyncRead;
use stockade_provider::ProcessEnd;
use stockade_wire::{
    FrameError, GuestMessage, HelloReply, Nonce, Observed, Status, check_reply, read_message,
};
use tokio::sync::{oneshot, watch};

use super::LinkError;

/// The requested executions, and why the link was closed, if it was.
#[derive(Debug)]
pub(super) struct Conversation {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    executions: BTreeMap<u64, Execution>,
    /// Kept for every wait, also for those that begin later.
    fault: Option<Arc<LinkError>>,
    closed: bool,
}

/// An execution that has not ended.
#[derive(Debug)]
struct Execution {
    started: bool,
    end: oneshot::Sender<ProcessEnd>,
    /// Pending queries about it; the guest answers them in order.
    asked: VecDeque<oneshot::Sender<Answer>>,
}

/// The guest's answer to a query about an execution.
#[derive(Debug)]
pub(super) enum Answer {
    Observed(Observed),
    Resized,
    NoTerminal,
}

impl Conversation {
    /// A conversation about at most `most` concurrent executions.
    pub(super) fn new(most: usize) -> Conversation {
        Conversation { most, state: Mutex::default() }
    }

    /// Allows the guest to report on `execution`. The returned receiver gets its end.
    pub(super) fn expect(
        &self,
        execution: u64,
    ) -> Result<oneshot::Receiver<ProcessEnd>, LinkError> {
        let (end, ended) = oneshot::channel();
        let mut state = self.lock();
        if state.executions.len() >= self.most {
            return Err(LinkError::TooManyExecutions { most: self.most });
        }
        if !state.closed {
            let asked = VecDeque::new();
            state.executions.insert(execution, Execution { started: false, end, asked });
        }
        Ok(ended)
    }

    /// Whether the guest has reported that an execution started, or its end.
    pub(super) fn has_started(&self, execution: u64) -> bool {
        self.lock().executions.get(&execution).is_none_or(|found| found.started)
    }

    /// Removes an execution that was never requested from the guest.
    pub(super) fn forget(&self, execution: u64) {
        self.lock().executions.remove(&execution);
    }

    /// Expects one more answer about an execution. Called right before the query is sent.
    pub(super) fn ask(&self, execution: u64) -> Result<oneshot::Receiver<Answer>, LinkError> {
        let (sender, answer) = oneshot::channel();
        let mut state = self.lock();
        if let Some(found) = state.executions.get_mut(&execution) {
            found.asked.push_back(sender);
            return Ok(answer);
        }
        drop(state);
        Err(self.why_unanswered(execution))
    }

    /// Ends the conversation, and with it every wait for an end or an answer.
    pub(super) fn close(&self, fault: Option<LinkError>) {
        let mut state = self.lock();
        if !state.closed {
            state.closed = true;
            state.fault = fault.map(Arc::new);
            state.executions.clear();
        }
    }

    /// Why the link was closed, if an error closed it.
    pub(super) fn fault(&self) -> Option<LinkError> {
        self.lock().fault.clone().map(LinkError::Fault)
    }

    /// The error of a wait that the end of the link ended.
    pub(super) fn why_closed(&self) -> LinkError {
        self.fault().unwrap_or(LinkError::Closed)
    }

    /// The error of a query about an execution that does not run: the end of the link, if that is
    /// why.
    pub(super) fn why_unanswered(&self, execution: u64) -> LinkError {
        let is_closed = self.lock().closed;
        match is_closed {
            true => self.why_closed(),
            false => LinkError::NotRunning { execution },
        }
    }

    /// Reads messages until the guest closes the control stream or breaks the protocol.
    pub(super) async fn listen(
        &self,
        mut control: impl AsyncRead + Unpin,
        nonce: Nonce,
        greeted: watch::Sender<Option<HelloReply>>,
    ) -> Result<(), LinkError> {
        let first = match read_message(&mut control).await {
            Ok(first) => first,
            Err(FrameError::Closed) => return Ok(()),
            Err(source) => return Err(LinkError::Hear { source }),
        };
        let reply = check_reply(first, nonce).map_err(|source| LinkError::Handshake { source })?;
        greeted.send_replace(Some(reply));
        loop {
            match read_message(&mut control).await {
                Ok(message) => self.heard(message)?,
                Err(FrameError::Closed) => return Ok(()),
                Err(source) => return Err(LinkError::Hear { source }),
            }
        }
    }

    fn heard(&self, message: GuestMessage) -> Result<(), LinkError> {
        let mut state = self.lock();
        match message {
            GuestMessage::HelloReply(_) => breach("a second reply to one hello"),
            GuestMessage::Started(started) => match state.executions.get_mut(&started.execution) {
                Some(execution) if !execution.started => {
                    execution.started = true;
                    Ok(())
                }
                _ => breach("the start of what was not asked for"),
            },
            GuestMessage::NotStarted(failed) => {
                let program = failed.program.into();
                let errno = failed.errno;
                let end = ProcessEnd::NotStarted { errno, program, refused_call: None };
                state.finish(failed.execution, false, end)
            }
            GuestMessage::Ended(ended) => {
                let end = match ended.status {
                    Status::Exited(code) => ProcessEnd::Exited { code },
                    Status::Signaled(signal) => ProcessEnd::Signaled { signal },
                };
                state.finish(ended.execution, true, end)
            }
            GuestMessage::Observed(observed) => {
                state.answer(observed.execution, Answer::Observed(observed))
            }
            GuestMessage::Resized(about) => state.answer(about.execution, Answer::Resized),
            GuestMessage::NoTerminal(about) => state.answer(about.execution, Answer::NoTerminal),
            // Every byte of the guest counts as a beat; this message is for an idle link.
            GuestMessage::Beat => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is always consistent, so a poisoned lock can be used.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Reports an end, if the execution was requested and is in the matching state.
    fn finish(&mut self, execution: u64, started: bool, end: ProcessEnd) -> Result<(), LinkError> {
        match self.executions.remove(&execution) {
            Some(found) if found.started == started => {
                // The caller may have dropped the receiver.
                let _ = found.end.send(end);
                Ok(())
            }
            _ => breach("the end of what does not run"),
        }
    }

    fn answer(&mut self, execution: u64, answer: Answer) -> Result<(), LinkError> {
        let asked = self.executions.get_mut(&execution).and_then(|found| found.asked.pop_front());
        match asked {
            Some(asked) => {
                // The caller may have dropped the receiver.
                let _ = asked.send(answer);
                Ok(())
            }
            None => breach("an answer that was not asked for"),
        }
    }
}

fn breach(what: &'static str) -> Result<(), LinkError> {
    Err(LinkError::Breach { what })
}
