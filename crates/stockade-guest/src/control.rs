//! The control stream: requests from the host, and the replies.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::pending;
use std::pin::{Pin, pin};
use std::process;
use std::rc::{Rc, Weak};

use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::io::{AsyncReadExt, AsyncWrite};
use rustix::process::Signal;
use stockade_wire::{
    self as wire, Execute, FrameError, GuestExit, GuestMessage, GuestVersion, HostMessage, Kill,
    NoTerminal, Observe, Observed, Resize, Resized, WindowSize, answer, read_message,
    write_message,
};
use yamux::Stream;

use crate::execution::{self, State};
use crate::heartbeat;
use crate::terminal::Terminal;

/// Queues replies to the host.
#[derive(Clone)]
pub(crate) struct Replies(UnboundedSender<GuestMessage>);

impl Replies {
    pub(crate) fn send(&self, message: GuestMessage) {
        // Fails only when the control stream has ended, and then the guest ends too.
        let _ = self.0.unbounded_send(message);
    }
}

/// Answers the handshake, then serves requests until the stream ends or the host misses its beats.
pub(crate) async fn converse(stream: Stream, state: State, greeted: Rc<Cell<bool>>) -> GuestExit {
    let (mut reader, writer) = AsyncReadExt::split(stream);
    let (sender, messages) = unbounded();
    state.reactor.spawn(say(messages, writer));
    let requests = Requests { state, replies: Replies(sender), executions: Rc::default() };
    let first = match read_message(&mut reader).await {
        Ok(first) => first,
        Err(error) => return GuestExit::from(&error),
    };
    match answer(&first, this_version(), process::id()) {
        Ok(reply) => requests.replies.send(reply),
        Err(error) => return GuestExit::from(&error),
    }
    greeted.set(true);
    let mut silence: Pin<Box<dyn Future<Output = GuestExit>>> = Box::pin(pending());
    loop {
        let message = match select(pin!(read_message(&mut reader)), &mut silence).await {
            Either::Left((Ok(message), _)) => message,
            Either::Left((Err(FrameError::Closed), _)) => return GuestExit::Done,
            Either::Left((Err(error), _)) => return GuestExit::from(&error),
            Either::Right((exit, _)) => return exit,
        };
        match message {
            HostMessage::Hello(_) => return GuestExit::OutOfPlace,
            HostMessage::Execute(request) => requests.execute(*request),
            HostMessage::Signal(wire::Signal { execution, signal }) => {
                requests.signal(execution, signal);
            }
            HostMessage::Kill(Kill { execution }) => requests.kill(execution),
            HostMessage::Resize(Resize { execution, size }) => requests.resize(execution, size),
            HostMessage::Observe(Observe { execution }) => requests.observe(execution),
            HostMessage::Pause => requests.state.processes.signal_all(Signal::STOP),
            HostMessage::Resume => requests.state.processes.signal_all(Signal::CONT),
            HostMessage::Heartbeat(beats) => {
                silence = Box::pin(heartbeat::beat(
                    beats,
                    requests.state.reactor.clone(),
                    Rc::clone(&requests.state.heard),
                    requests.replies.clone(),
                ));
            }
            HostMessage::Beat => {}
        }
    }
}

/// The executions that have not ended.
type Executions = Rc<RefCell<HashMap<u64, Execution>>>;

/// An execution that has not ended.
struct Execution {
    /// The signals that arrived before its start.
    early: Vec<Signal>,
    /// Its terminal, if it has one. Does not keep the terminal open.
    terminal: Option<Weak<Terminal>>,
}

/// Carries out the requests of the host.
struct Requests {
    state: State,
    replies: Replies,
    executions: Executions,
}

impl Requests {
    fn execute(&self, request: Execute) {
        let execution = request.execution;
        // Before the start: a resize may arrive before the program runs.
        let terminal = request.terminal.map(|size| Terminal::open(size, &self.state.reactor));
        let opened = terminal.as_ref().map(|opened| match opened {
            Ok((terminal, _)) => Rc::downgrade(terminal),
            Err(_) => Weak::new(),
        });
        let entry = Execution { early: Vec::new(), terminal: opened };
        self.executions.borrow_mut().insert(execution, entry);
        let (state, replies) = (self.state.clone(), self.replies.clone());
        let executions = Rc::clone(&self.executions);
        self.state.reactor.spawn(async move {
            let started = || {
                let mut running = executions.borrow_mut();
                let early = running.get_mut(&execution).map(|one| std::mem::take(&mut one.early));
                for signal in early.into_iter().flatten() {
                    deliver(&state, execution, signal);
                }
            };
            let output = execution::run(request, terminal, &state, &replies, &started).await;
            executions.borrow_mut().remove(&execution);
            if let Some(output) = output {
                output.await;
            }
        });
    }

    fn signal(&self, execution: u64, signal: i32) {
        // The host has checked the number.
        if let Some(signal) = Signal::from_named_raw(signal) {
            self.deliver_or_keep(execution, signal);
        }
    }

    fn kill(&self, execution: u64) {
        self.deliver_or_keep(execution, Signal::KILL);
    }

    fn deliver_or_keep(&self, execution: u64, signal: Signal) {
        match self.state.processes.leader(execution) {
            Some(_) => deliver(&self.state, execution, signal),
            None => {
                if let Some(found) = self.executions.borrow_mut().get_mut(&execution) {
                    found.early.push(signal);
                }
            }
        }
    }

    fn resize(&self, execution: u64, size: WindowSize) {
        let executions = self.executions.borrow();
        let Some(found) = executions.get(&execution) else { return };
        self.replies.send(match &found.terminal {
            Some(terminal) => {
                // A terminal that is closed, or that no process uses, needs no size.
                let _ = terminal.upgrade().map(|terminal| terminal.resize(size));
                GuestMessage::Resized(Resized { execution })
            }
            None => GuestMessage::NoTerminal(NoTerminal { execution }),
        });
    }

    fn observe(&self, execution: u64) {
        if self.executions.borrow().contains_key(&execution) {
            let leader = self.state.processes.leader(execution);
            let process = leader.map(|leader| leader.as_raw_nonzero().get());
            self.replies.send(GuestMessage::Observed(Observed { execution, process }));
        }
    }
}

/// Sends SIGKILL to the process group, and any other signal to the program alone.
fn deliver(state: &State, execution: u64, signal: Signal) {
    match signal {
        Signal::KILL => state.processes.kill(execution),
        signal => state.processes.signal(execution, signal),
    }
}

/// Sends messages in the order of the queue.
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
