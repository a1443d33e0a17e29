//! The files of a session as they are now, or of a checkpoint.

use std::path::PathBuf;

use stockade_policy::WORKSPACE;
use stockade_store::{Checkpoint, Contents, HostBase, Passing, Reference, Store, View};
use stockade_supervisor::SessionName;

use super::keep::make;
use super::place::{self, problem};
use crate::Problem;

/// A checkpoint for one command.
pub(super) struct Look {
    pub(super) store: Store,
    pub(super) checkpoint: Checkpoint,
    /// Removes a checkpoint that this command made, at its end.
    _passing: Option<Passing>,
}

impl Look {
    /// Finds a checkpoint by `SESSION/NAME`, or makes one of a session.
    pub(super) fn at(text: &str) -> anyhow::Result<Look> {
        let store = place::open()?;
        let (reference, passing) = match text.contains('/') {
            true => (text.parse::<Reference>().map_err(|error| problem(&error))?, None),
            false => {
                let name = SessionName::random()?.as_str().replace("session-", "look-");
                let reference = place::reference(text, &name)?;
                let passing = store.passing(&reference).map_err(|error| problem(&error))?;
                make(text, &name)?;
                (reference, Some(passing))
            }
        };
        let checkpoint = store.checkpoint(&reference).map_err(|error| problem(&error))?;
        Ok(Look { store, checkpoint, _passing: passing })
    }

    /// Another checkpoint, by its name in this session or one that it was forked from.
    pub(super) fn earlier(&self, name: &str) -> Result<Look, Problem> {
        let Checkpoint { session, ancestors, .. } = &self.checkpoint;
        let found = self.store.find(session, ancestors, name);
        let checkpoint = found.map_err(|error| problem(&error))?;
        Ok(Look { store: self.store.clone(), checkpoint, _passing: None })
    }

    /// The places with their numbers: the workspace, or all.
    pub(super) fn places(&self, all: bool) -> Vec<(u32, String, Option<PathBuf>)> {
        let places = (0..).zip(&self.checkpoint.places);
        places
            .filter(|(_, place)| all || place.path == WORKSPACE)
            .map(|(number, place)| (number, place.path.clone(), place.base.clone()))
            .collect()
    }

    pub(super) fn contents(&self) -> Result<Contents, Problem> {
        self.store.contents(&self.checkpoint).map_err(|error| problem(&error))
    }
}

/// The host directory below a place.
pub(super) fn base(base: Option<&PathBuf>) -> Result<Option<HostBase>, Problem> {
    base.map(|base| HostBase::open(base)).transpose().map_err(|error| problem(&error))
}

/// A view of a place.
pub(super) fn view<'c>(
    contents: &'c Contents,
    number: u32,
    base: Option<&'c HostBase>,
) -> Result<View<'c>, Problem> {
    View::of(contents, number, base).map_err(|error| problem(&error))
}
