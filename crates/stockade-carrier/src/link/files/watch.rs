//! Changes below a directory, as the guest reports them.

use futures_core::future::BoxFuture;
use stockade_provider::{FileChange, FileError, FileWatch};
use stockade_wire as wire;

use super::answer::change;
use super::body::Body;

/// A watch that holds.
pub(super) struct Watch {
    body: Body,
}

impl Watch {
    /// Waits until the guest watches.
    pub(super) async fn started(mut body: Body) -> Result<Watch, FileError> {
        match body.message::<wire::FileChange>().await? {
            Some(wire::FileChange { kind: wire::FileChangeKind::Ready, .. }) => Ok(Watch { body }),
            _ => Err(body.subject().breach("it reported a change before it watched")),
        }
    }
}

impl FileWatch for Watch {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<FileChange>, FileError>> {
        Box::pin(async {
            let Some(next) = self.body.message::<wire::FileChange>().await? else {
                return Ok(None);
            };
            match change(next) {
                Ok(Some(next)) => Ok(Some(next)),
                Ok(None) => Err(self.body.subject().breach("it started a watch twice")),
                Err(what) => Err(self.body.subject().breach(what)),
            }
        })
    }
}
