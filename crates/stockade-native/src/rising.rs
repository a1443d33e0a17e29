//! A sandbox whose wall is being built: a program can be handed over before it stands.
//!
//! ```text
//! rising ── start ──▶ rising with a program that waits
//!    │                      │
//!    └──────── stand ───────┴──▶ standing: the program is started
//!                           └──▶ refused: nothing was
//! ```
//! The guest serves only when every step was carried out, so that whatever was handed over before
//! is started behind the whole wall or never.

use stockade_provider::{Error, First, Started};

use crate::error::StartError;
use crate::launch::Building;
use crate::sandbox::{NativeSandbox, Parts};

/// A sandbox that does not stand yet. Dropping it ends it.
pub(crate) struct Rising {
    pub(crate) building: Building,
    pub(crate) parts: Parts,
}

impl Rising {
    /// Hands the first program over, once it is admitted, and waits until the wall stands.
    pub(crate) async fn stand_with(mut self, first: First<'_>) -> Result<Started, Error> {
        let command = self.parts.interior.command(first.execution)?;
        (first.admit)()?;
        // Where the stream has ended the wall was refused, which is then told.
        let handed = self.building.start(command).await;
        let sandbox = self.stand().await?;
        let running = sandbox.explained(handed).await;
        Ok(Started { sandbox: Box::new(sandbox), running })
    }

    /// Waits until the wall stands.
    pub(crate) async fn stand(self) -> Result<NativeSandbox, StartError> {
        let Rising { building, mut parts } = self;
        let standing = building.finish().await?;
        // Only now: a start that fails or is given up takes both with it.
        if let Some(scratch) = &mut parts.scratch {
            scratch.hand_over();
        }
        if let Some(group) = &mut parts.group {
            group.hand_over();
        }
        NativeSandbox::new(standing, parts)
    }
}
