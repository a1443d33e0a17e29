//! Restores where the files are: only what differs from the checkpoint is sent and written.
//!
//! ```text
//! no program runs ── compare ──▶ change ──▶ done
//!                       │           └── failed ──▶ partly changed ── replaced, or killed
//!                       └── unfit ──▶ replaced
//! ```
//! Nothing of a program is left when its sandbox is changed: the guest compares only if no process
//! exists but its own and an interpreter that ran no code yet. So no open file, mapping or lock can
//! reach from before into what follows.

use std::sync::Arc;

use stockade_provider::Sandbox;
use stockade_store::{Checkpoint, Store};
use tokio::runtime::Handle;

use super::transfer::{change, difference};

/// A sandbox in use.
type Shared = Arc<Box<dyn Sandbox>>;

/// What became of the files.
pub(super) enum Rewound {
    /// They are those of the checkpoint.
    Done,
    /// They are as before.
    Unfit,
    /// They are between two states.
    Partly(Unfinished),
}

/// Kills a sandbox whose files are between two states, unless it is replaced before.
pub(crate) struct Unfinished(Option<Shared>);

/// Brings the files of a sandbox back to a checkpoint.
pub(super) async fn rewind(sandbox: &Shared, store: &Store, checkpoint: &Checkpoint) -> Rewound {
    let Ok(files) = sandbox.files() else { return Rewound::Unfit };
    let Some((contents, delta)) = difference(files.as_ref(), store, checkpoint).await else {
        return Rewound::Unfit;
    };
    if delta.is_empty() {
        return Rewound::Done;
    }
    // Also for a caller that drops the future.
    let unfinished = Unfinished::of(sandbox);
    match change(files.as_ref(), contents, delta).await {
        true => {
            unfinished.release();
            Rewound::Done
        }
        false => Rewound::Partly(unfinished),
    }
}

impl Unfinished {
    /// Kills this one when it is dropped.
    pub(crate) fn of(sandbox: &Shared) -> Unfinished {
        Unfinished(Some(Arc::clone(sandbox)))
    }

    /// Lets the sandbox go.
    pub(crate) fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let (Some(sandbox), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(async move { sandbox.kill().await });
        }
    }
}
