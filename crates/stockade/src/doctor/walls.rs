//! Every wall with every control, as data. The texts come from the facts that `policy plan` uses
//! too.

use serde::Serialize;
use stockade_policy::{Control, Isolation};
use stockade_provider::{Ability, HostFacts, Obstacle, ProviderName, WallFacts};

/// One wall.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Wall {
    pub(super) provider: ProviderName,
    pub(super) isolation: Isolation,
    pub(super) built_in: bool,
    pub(super) usable: bool,
    /// Why it cannot be used, if so.
    pub(super) obstacle: Option<Obstacle>,
    /// Its ability for each control; empty if the wall cannot be used.
    pub(super) controls: Vec<ControlOf>,
}

/// One control of a wall.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ControlOf {
    pub(super) control: &'static str,
    #[serde(flatten)]
    pub(super) ability: Ability,
}

/// The walls in the order of preference.
pub(super) fn walls(facts: &HostFacts, is_built_in: impl Fn(&str) -> bool) -> Vec<Wall> {
    facts.walls.iter().map(|wall| one(wall, is_built_in(wall.provider.as_str()))).collect()
}

fn one(wall: &WallFacts, built_in: bool) -> Wall {
    let of = |control: Control| {
        let (ability, control) = (wall.ability(control), control.as_str());
        ControlOf { control, ability }
    };
    Wall {
        provider: wall.provider.clone(),
        isolation: wall.isolation,
        built_in,
        usable: wall.unusable.is_none(),
        obstacle: wall.unusable.clone(),
        controls: match wall.unusable {
            Some(_) => Vec::new(),
            None => Control::all().into_iter().map(of).collect(),
        },
    }
}
