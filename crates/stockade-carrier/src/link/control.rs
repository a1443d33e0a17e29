//! Control of executions: messages to the guest, and the handle of one execution.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::io::{AsyncWrite, AsyncWriteExt};
use stockade_provider::{self as provider, Error, ExecutionUsage, TerminalSize};
use stockade_wire::{FrameError, HostMessage, Kill, Observe, Observed, Resize, Signal, encode};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::conversation::{Answer, Conversation};
use super::{LinkError, window_size};

/// Messages for the guest, sent in order by the task that drives the link. A caller that is
/// cancelled therefore never leaves a partial message.
#[derive(Clone, Debug)]
pub(super) struct Outbox(UnboundedSender<Vec<u8>>);

impl Outbox {
    pub(super) fn new() -> (Outbox, UnboundedReceiver<Vec<u8>>) {
        let (sender, receiver) = unbounded_channel();
        (Outbox(sender), receiver)
    }

    pub(super) fn send(&self, message: &HostMessage) -> Result<(), LinkError> {
        let frame = encode(message).map_err(|source| LinkError::Say { source })?;
        self.0.send(frame).map_err(|_| LinkError::Closed)
    }
}

/// Writes messages to the control stream until the link or the stream ends.
pub(super) async fn write_messages(
    mut messages: UnboundedReceiver<Vec<u8>>,
    mut control: impl AsyncWrite + Unpin,
) -> Result<(), LinkError> {
    while let Some(message) = messages.recv().await {
        let written = async {
            control.write_all(&message).await?;
            control.flush().await
        };
        let failed = |source| LinkError::Say { source: FrameError::Write { source } };
        written.await.map_err(failed)?;
    }
    Ok(())
}

/// Controls one execution. Stays valid after the execution has ended; signals then do nothing.
#[derive(Clone, Debug)]
pub struct ExecutionControl {
    pub(super) execution: u64,
    pub(super) outbox: Outbox,
    pub(super) conversation: Arc<Conversation>,
}

impl ExecutionControl {
    /// The number of the execution, unique within its link.
    pub fn id(&self) -> u64 {
        self.execution
    }

    /// Whether the guest has reported that the program started, or that it ended.
    pub fn has_started(&self) -> bool {
        self.conversation.has_started(self.execution)
    }

    /// Sends a signal to the program itself.
    pub fn signal(&self, signal: i32) -> Result<(), LinkError> {
        const LAST_STANDARD_SIGNAL: i32 = 31;
        if !(1..=LAST_STANDARD_SIGNAL).contains(&signal) {
            return Err(LinkError::Signal { signal });
        }
        self.outbox.send(&HostMessage::Signal(Signal { execution: self.execution, signal }))
    }

    /// Kills the program and its process group.
    pub fn kill(&self) -> Result<(), LinkError> {
        self.outbox.send(&HostMessage::Kill(Kill { execution: self.execution }))
    }

    /// Resizes the terminal of the program.
    pub async fn resize(&self, size: TerminalSize) -> Result<(), LinkError> {
        let execution = self.execution;
        let answer = self.conversation.ask(execution)?;
        self.outbox.send(&HostMessage::Resize(Resize { execution, size: window_size(size) }))?;
        match self.answer(answer).await? {
            Answer::Resized => Ok(()),
            Answer::NoTerminal => Err(LinkError::NoTerminal { execution }),
            Answer::Observed(_) => Err(LinkError::Breach { what: "a report instead of a resize" }),
        }
    }

    /// The guest's report on the program. Do not trust it: measure on the host.
    pub async fn observe(&self) -> Result<Observed, LinkError> {
        let execution = self.execution;
        let answer = self.conversation.ask(execution)?;
        self.outbox.send(&HostMessage::Observe(Observe { execution }))?;
        match self.answer(answer).await? {
            Answer::Observed(observed) => Ok(observed),
            Answer::Resized => Err(LinkError::Breach { what: "a resize instead of a report" }),
            Answer::NoTerminal => Err(LinkError::Breach { what: "a refusal instead of a report" }),
        }
    }

    async fn answer(&self, answer: oneshot::Receiver<Answer>) -> Result<Answer, LinkError> {
        answer.await.map_err(|_| self.conversation.why_unanswered(self.execution))
    }
}

impl provider::ExecutionControl for ExecutionControl {
    fn signal(&self, signal: i32) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move { Ok(self.signal(signal)?) })
    }

    fn kill(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Ok(self.kill()?) })
    }

    fn resize(&self, size: TerminalSize) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move { Ok(self.resize(size).await?) })
    }

    /// Empty: the guest's report is not trusted, and the wall measures on the host.
    fn observe(&self) -> BoxFuture<'_, ExecutionUsage> {
        Box::pin(async { ExecutionUsage::default() })
    }
}
