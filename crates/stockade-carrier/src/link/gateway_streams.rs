//! Passes streams that the guest opens to the gateway.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::io::AsyncWriteExt;
use stockade_provider::{Destination, Duplex, ExecutionId, Gateway, on_behalf_of};
use stockade_splice::SpliceStream;
use stockade_wire::{FrameError, Opening, StreamOpening, read_message_within};
use tokio::task::JoinSet;
use tokio::time::timeout;
use yamux::Stream;

use super::LinkError;
use super::ledger::{Counted, Ledger};
use super::opened::Opened;
use super::socket::SplicePipes;

/// The deadline for the first frame of a stream. The guest sends it with the frame that opens it.
const OPENING_WITHIN: Duration = Duration::from_secs(10);

/// Passes streams to the gateway. Dropping it ends all of them.
#[derive(Debug)]
pub(super) struct GatewayStreams {
    gateway: Arc<dyn Gateway>,
    /// Sends splice pipes, if the transport can.
    pipes: Option<SplicePipes>,
    tasks: JoinSet<Result<(), LinkError>>,
}

impl GatewayStreams {
    pub(super) fn new(gateway: Arc<dyn Gateway>, pipes: Option<SplicePipes>) -> GatewayStreams {
        GatewayStreams { gateway, pipes, tasks: JoinSet::new() }
    }

    /// Serves a stream; resets it if the gateway's limit is reached.
    pub(super) fn admit(&mut self, stream: Stream, ledger: &Arc<Ledger>) {
        let stream = Ledger::connection(ledger, stream);
        if self.tasks.len() < self.gateway.most_streams() {
            let id = stream.id();
            let served = serve(Arc::clone(&self.gateway), stream, self.pipes.clone());
            let served = self.tasks.spawn(served);
            ledger.end_if_too_much(id, served);
        }
    }

    /// Removes streams that have ended. Ready when one of them broke the protocol.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<LinkError> {
        while let Poll::Ready(Some(ended)) = self.tasks.poll_join_next(context) {
            // A panic of the gateway ends only that stream.
            if let Ok(Err(fault)) = ended {
                return Poll::Ready(fault);
            }
        }
        Poll::Pending
    }
}

async fn serve(
    gateway: Arc<dyn Gateway>,
    mut stream: Counted,
    pipes: Option<SplicePipes>,
) -> Result<(), LinkError> {
    // An empty write acknowledges the stream: the guest opens at most 256 unacknowledged streams.
    let _ = stream.write(&[]).await;
    let opening = read_message_within::<StreamOpening, _>(&mut stream, StreamOpening::MAX_BYTES);
    let StreamOpening { opening, execution } = match timeout(OPENING_WITHIN, opening).await {
        Ok(Ok(opening)) => opening,
        Ok(Err(FrameError::Malformed { .. } | FrameError::TooLong { .. })) => {
            return Err(LinkError::Breach { what: "it opened a stream for nothing that is known" });
        }
        // The guest closed the stream or sent no opening in time; dropping the stream resets it.
        Ok(Err(_)) | Err(_) => return Ok(()),
    };
    let (id, written) = (stream.id(), Arc::new(AtomicU64::new(0)));
    let stream = Opened::new(stream, Arc::clone(&written));
    let stream: Box<dyn Duplex> = match pipes {
        Some(pipes) => Box::new(SpliceStream::new(stream, pipes.opener(id, written))),
        None => Box::new(stream),
    };
    let caller = execution.map(ExecutionId);
    on_behalf_of(caller, gateway.serve(destination(opening), stream)).await;
    Ok(())
}

fn destination(opening: Opening) -> Destination {
    match opening {
        Opening::Names => Destination::Names,
        Opening::Connection { address, port } => Destination::Address { address, port },
        Opening::Proxy => Destination::Proxy,
        Opening::Tools => Destination::Tools,
        Opening::Denials => Destination::Denials,
    }
}

#[cfg(test)]
mod tests {
    use stockade_provider::ToolAccess;
    use stockade_wire::TOOL_SOCKET;

    #[test]
    fn host_and_guest_use_the_same_tool_socket_path() {
        assert_eq!(ToolAccess::SOCKET, TOOL_SOCKET);
    }
}
