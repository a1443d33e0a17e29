//! A sandbox whose wall is being built: a program can be handed over before it stands.
//!
//! ```text
//! rising ── start ──▶ rising with a program that waits
//!    │                      │
//!    └──────── stand ───────┴──▶ standing: the program is started
//!                           └──▶ refused: it never is
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

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use stockade_carrier::Command;
    use stockade_launcher::Step;

    use crate::ground::{Ahead, begin};
    use crate::plan::USER;
    use stockade_cgroup::Layout;

    use super::*;

    /// Whether a program that was handed over has left its mark, behind a wall with one more step.
    async fn leaves_mark(folder: &Path, step: Step) -> Result<bool, StartError> {
        let mark = folder.join("mark");
        let begun = begin(Ahead::Nothing, &Layout::expect(), |_| Vec::new())?;
        let (_ground, mut begun) = (begun.ground, begun.begun);
        let user = Step::BecomeUser { user: USER, group: USER };
        begun.hand_over(&[Step::PrivateMounts, user, step, Step::Serve])?;
        let mut building = begun.build(None)?;
        let command = Command {
            program: "/bin/sh".to_owned(),
            arguments: ["sh", "-c", "echo > \"$0\"", &mark.display().to_string()]
                .map(str::to_owned)
                .to_vec(),
            environment: Vec::new(),
            working_directory: "/".to_owned(),
            code: None,
        };
        let running = building.start(command).await.unwrap();
        let standing = building.finish().await;
        // Its end, or that of the sandbox.
        let _ = running.end.await;
        standing.map(|_| mark.exists())
    }

    #[tokio::test]
    async fn program_that_was_handed_over_is_not_started_where_the_wall_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(folder.path(), everybody).unwrap();
        let gone = Step::WorkingDirectory(PathBuf::from("/nonexistent"));
        let refused = leaves_mark(folder.path(), gone).await;
        assert!(matches!(refused, Err(StartError::Refused(_))), "{refused:?}");
        assert!(!folder.path().join("mark").exists());
        let there = Step::WorkingDirectory(PathBuf::from("/"));
        assert!(leaves_mark(folder.path(), there).await.unwrap());
    }
}
