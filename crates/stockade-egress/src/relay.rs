//! Relays bytes in both directions, after all decisions.

use std::io;

use crate::secrets::Screen;
use crate::side::{Incoming, Outgoing, Side};

/// Relays bytes in both directions until both ends have finished. Buffered bytes go first.
pub(crate) async fn relay(inside: &mut Side, outside: &mut Side) -> io::Result<()> {
    let out = pass(&mut inside.incoming, &mut outside.outgoing);
    let back = pass(&mut outside.incoming, &mut inside.outgoing);
    tokio::try_join!(out, back).map(|_| ())
}

/// Nothing passes that was not searched.
const UNSEARCHED: &str = "what the server sent cannot be searched for secrets";

/// The same, with the values of secrets redacted in what the server sends.
pub(crate) async fn relay_redacted(
    inside: &mut Side,
    outside: &mut Side,
    redactor: &mut Screen,
) -> io::Result<()> {
    if redactor.is_off() {
        return relay(inside, outside).await;
    }
    let out = pass(&mut inside.incoming, &mut outside.outgoing);
    let (from, to) = (&mut outside.incoming, &mut inside.outgoing);
    let back = async {
        loop {
            if from.held().is_empty() && from.fill().await? == 0 {
                let rest = redactor.finish();
                to.send(&rest).await?;
                return to.finish().await;
            }
            let bytes = from.held().len();
            let passing = redactor.pass(from.held()).map_err(|_| io::Error::other(UNSEARCHED))?;
            to.send(&passing).await?;
            from.used(bytes);
        }
    };
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
