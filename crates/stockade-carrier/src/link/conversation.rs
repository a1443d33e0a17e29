//! What the guest may say on the control stream, and when.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::io::AsyncRead;
use stockade_provider::ProcessEnd;
use stockade_wire::{
    FrameError, GuestMessage, HelloReply, Nonce, Status, check_reply, read_message,
};
use tokio::sync::{oneshot, watch};

use super::LinkError;

/// The executions that were asked for, and why the link was closed if it was.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pending: Vec<Pending>,
    fault: Option<LinkError>,
    closed: bool,
}

#[derive(Debug)]
struct Pending {
    execution: u64,
    started: bool,
    end: oneshot::Sender<ProcessEnd>,
}

impl Conversation {
    /// From now on the guest may report on `execution`; its end comes through what is returned.
    pub(super) fn expect(&self, execution: u64) -> oneshot::Receiver<ProcessEnd> {
        let (end, ended) = oneshot::channel();
        let mut state = self.lock();
        if !state.closed {
            state.pending.push(Pending { execution, started: false, end });
        }
        ended
    }

    /// Ends the conversation; whoever waits for an end learns that none will come.
    pub(super) fn close(&self, fault: Option<LinkError>) {
        let mut state = self.lock();
        if !state.closed {
            state.closed = true;
            state.fault = fault;
            state.pending.clear();
        }
    }

    /// Why the link was closed, if it was for a reason and nobody has asked before.
    pub(super) fn take_fault(&self) -> Option<LinkError> {
        self.lock().fault.take()
    }

    /// Listens until the guest closes the control stream or says what it may not.
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
            GuestMessage::Started(started) => {
                match state.pending.iter_mut().find(|one| one.execution == started.execution) {
                    Some(pending) if !pending.started => {
                        pending.started = true;
                        Ok(())
                    }
                    _ => breach("the start of what was not asked for"),
                }
            }
            GuestMessage::NotStarted(failed) => {
                let program = failed.program.into();
                let end = ProcessEnd::NotStarted { errno: failed.errno, program };
                state.finish(failed.execution, false, end)
            }
            GuestMessage::Ended(ended) => {
                let end = match ended.status {
                    Status::Exited(code) => ProcessEnd::Exited { code },
                    Status::Signaled(signal) => ProcessEnd::Signaled { signal },
                };
                state.finish(ended.execution, true, end)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No step leaves the state half changed, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Reports an end, if the execution was asked for and has come as far.
    fn finish(&mut self, execution: u64, started: bool, end: ProcessEnd) -> Result<(), LinkError> {
        let due = |one: &Pending| one.execution == execution && one.started == started;
        match self.pending.iter().position(due) {
            Some(at) => {
                // Whoever dropped the other side does not want to know.
                let _ = self.pending.swap_remove(at).end.send(end);
                Ok(())
            }
            None => breach("the end of what does not run"),
        }
    }
}

fn breach(what: &'static str) -> Result<(), LinkError> {
    Err(LinkError::Breach { what })
}
