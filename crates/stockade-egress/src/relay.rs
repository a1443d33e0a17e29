//! Relays bytes in both directions, after all decisions.

use std::io;

use crate::side::{Incoming, Outgoing, Side};

/// Relays bytes in both directions until both ends have finished. Buffered bytes go first.
pub(crate) async fn relay(inside: &mut Side, outside: &mut Side) -> io::Result<()> {
    let out = pass(&mut inside.incoming, &mut outside.outgoing);
    let back = pass(&mut outside.incoming, &mut inside.outgoing);
    tokio::try_join!(out, back).map(|_| ())
}

/// Forwards everything from one end, and then its half-close.
async fn pass(from: &mut Incoming, to: &mut Outgoing) -> io::Result<()> {
    loop {
        if from.held().is_empty() {
            if let Some(splice) = from.open_splice(to).await? {
                from.pass_through(splice).await?;
                return to.finish().await;
            }
            if from.fill_to_pass().await? == 0 {
                return to.finish().await;
            }
        }
        let bytes = from.held().len();
        to.send(from.held()).await?;
        from.used(bytes);
    }
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
