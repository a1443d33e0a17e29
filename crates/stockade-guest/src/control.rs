//! The control stream: what the host asks, and what is answered.

use std::cell::Cell;
use std::process;
use std::rc::Rc;

use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_util::StreamExt;
use futures_util::io::{AsyncReadExt, AsyncWrite};
use rustix::io::Errno;
use rustix::process::Signal;
use stockade_wire::{
    Execute, FrameError, GuestExit, GuestMessage, GuestVersion, HostMessage, NotStarted, answer,
    read_message, write_message,
};
use yamux::Stream;

use crate::execution::{self, Surroundings};

/// Where answers are left to be sent.
#[derive(Clone)]
pub(crate) struct Replies(UnboundedSender<GuestMessage>);

impl Replies {
    pub(crate) fn send(&self, message: GuestMessage) {
        // It fails only when the control stream is gone, and the guest ends with that.
        let _ = self.0.unbounded_send(message);
    }
}

/// Answers the handshake, then does what the host asks until the stream ends.
pub(crate) async fn converse(
    stream: Stream,
    around: Surroundings,
    greeted: Rc<Cell<bool>>,
) -> GuestExit {
    let (mut reader, writer) = AsyncReadExt::split(stream);
    let (sender, messages) = unbounded();
    around.reactor.spawn(say(messages, writer));
    let mut desk = Desk { around, replies: Replies(sender), running: Rc::default() };
    let first = match read_message(&mut reader).await {
        Ok(first) => first,
        Err(error) => return GuestExit::from(&error),
    };
    match answer(&first, this_version(), process::id()) {
        Ok(reply) => desk.replies.send(reply),
        Err(error) => return GuestExit::from(&error),
    }
    greeted.set(true);
    loop {
        let message = match read_message(&mut reader).await {
            Ok(message) => message,
            Err(FrameError::Closed) => return GuestExit::Done,
            Err(error) => return GuestExit::from(&error),
        };
        match message {
            HostMessage::Hello(_) => return GuestExit::OutOfPlace,
            HostMessage::Execute(request) => desk.execute(request),
            HostMessage::Pause => desk.around.processes.signal_all(Signal::STOP),
            HostMessage::Resume => desk.around.processes.signal_all(Signal::CONT),
        }
    }
}

/// Where requests are taken, one execution at a time.
struct Desk {
    around: Surroundings,
    replies: Replies,
    running: Rc<Cell<bool>>,
}

impl Desk {
    fn execute(&mut self, request: Execute) {
        let execution = request.execution;
        if self.running.get() {
            self.around.waiting.refuse(execution);
            let (errno, program) = (Errno::BUSY.raw_os_error(), request.program);
            let refusal = NotStarted { execution, errno, program };
            self.replies.send(GuestMessage::NotStarted(refusal));
            return;
        }
        self.running.set(true);
        let (around, replies, running) =
            (self.around.clone(), self.replies.clone(), Rc::clone(&self.running));
        self.around.reactor.spawn(async move {
            let output = execution::run(request, &around, &replies).await;
            running.set(false);
            if let Some(output) = output {
                output.await;
            }
        });
    }
}

/// Sends messages in the order they were left.
async fn say(mut messages: UnboundedReceiver<GuestMessage>, mut writer: impl AsyncWrite + Unpin) {
    while let Some(message) = messages.next().await {
        if write_message(&mut writer, &message).await.is_err() {
            return;
        }
    }
}

fn this_version() -> GuestVersion {
    GuestVersion::try_from(env!("CARGO_PKG_VERSION").to_owned())
        .expect("the release number of this crate is a guest version")
}
