//! What walls can enforce on a host, found by probing.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use stockade_policy::{Control, Isolation};

use crate::{Language, Program};

/// The name of a wall, as `--provider` takes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ProviderName(&'static str);

impl ProviderName {
    /// Names a wall. Only the crate that knows every wall creates names.
    pub const fn new(name: &'static str) -> ProviderName {
        ProviderName(name)
    }

    /// The name as text.
    pub fn as_str(&self) -> &'static str {
        self.0
    }
}

impl fmt::Display for ProviderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Why something cannot be enforced here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Obstacle {
    /// The cause.
    pub reason: String,
    /// Advice for the user.
    pub remedy: String,
}

/// How precisely a limit is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// The kernel enforces it.
    Exact,
    /// rlimits and a watchdog enforce it, with some delay.
    Approximate,
    /// A service enforces it by its own account, and this version has not been tried against the
    /// real one.
    Unverified,
}

/// Whether and how a wall enforces one control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ability {
    /// It enforces the control.
    Enforced {
        /// The mechanism.
        mechanism: String,
        /// How precisely.
        precision: Precision,
    },
    /// It cannot enforce the control on this host.
    Missing(Obstacle),
    /// This version cannot enforce the control on any host.
    NotBuiltIn(Obstacle),
}

impl Ability {
    /// Exactly enforced by a mechanism.
    pub fn exact(mechanism: impl Into<String>) -> Ability {
        Ability::Enforced { mechanism: mechanism.into(), precision: Precision::Exact }
    }

    /// Enforced with some delay or in parts.
    pub fn approximate(mechanism: impl Into<String>) -> Ability {
        Ability::Enforced { mechanism: mechanism.into(), precision: Precision::Approximate }
    }

    /// Enforced by a service by its own account.
    pub fn unverified(mechanism: impl Into<String>) -> Ability {
        Ability::Enforced { mechanism: mechanism.into(), precision: Precision::Unverified }
    }

    /// Not enforced on this host.
    pub fn missing(reason: impl Into<String>, remedy: impl Into<String>) -> Ability {
        Ability::Missing(Obstacle { reason: reason.into(), remedy: remedy.into() })
    }

    /// Not enforced by this version.
    pub fn not_built_in(reason: impl Into<String>, remedy: impl Into<String>) -> Ability {
        Ability::NotBuiltIn(Obstacle { reason: reason.into(), remedy: remedy.into() })
    }
}

/// What one wall can do on this host.
#[derive(Clone, Debug)]
pub struct WallFacts {
    /// The wall.
    pub provider: ProviderName,
    /// How strong it is.
    pub isolation: Isolation,
    /// Why it cannot be used at all, if it cannot.
    pub unusable: Option<Obstacle>,
    /// Which kinds of program it supports.
    pub programs: ProgramKinds,
    /// Its ability for each control it knows.
    pub abilities: BTreeMap<Control, Ability>,
}

/// Which kinds of program a wall supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramKinds {
    /// Whether it supports commands: executables with arguments.
    pub commands: bool,
    /// The languages whose code it runs.
    pub languages: &'static [Language],
    /// Whether a program gets input and shows output while it runs, as contexts need.
    pub contexts: bool,
    /// Whether SIGINT interrupts a program, so that a context keeps its state. Where it does not, an
    /// interrupt ends the context.
    pub interrupts: bool,
}

impl ProgramKinds {
    /// Commands, code in every language, and contexts.
    pub const ALL: ProgramKinds = ProgramKinds {
        commands: true,
        languages: &Language::ALL,
        contexts: true,
        interrupts: true,
    };

    /// No program, for a wall that is not built in.
    pub const NONE: ProgramKinds =
        ProgramKinds { commands: false, languages: &[], contexts: false, interrupts: false };
}

impl WallFacts {
    /// Why the wall does not support a program of this kind, if it does not.
    pub fn refuses(&self, program: &Program) -> Option<Obstacle> {
        let (runs, kind) = match program {
            Program::Command { .. } => (self.programs.commands, "commands".to_owned()),
            Program::Code { language, .. } => {
                (self.programs.languages.contains(language), format!("{language} code"))
            }
        };
        let mut known: Vec<String> =
            self.programs.commands.then(|| "commands".to_owned()).into_iter().collect();
        known.extend(self.programs.languages.iter().map(|language| format!("{language} code")));
        let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
        (!runs).then(|| Obstacle {
            reason: format!("the {} wall does not run {kind}; it runs {known}", self.provider),
            remedy: "choose another wall with --provider, or leave the choice to Stockade"
                .to_owned(),
        })
    }

    /// The wall's ability for a control. A control that the wall does not know is missing.
    pub fn ability(&self, control: Control) -> Ability {
        if let Some(obstacle) = &self.unusable {
            return Ability::Missing(obstacle.clone());
        }
        self.abilities.get(&control).cloned().unwrap_or_else(|| {
            Ability::Missing(Obstacle {
                reason: format!(
                    "the {} wall does not know the control {}",
                    self.provider,
                    control.as_str()
                ),
                remedy: "use a newer version, another wall, or remove the clause".to_owned(),
            })
        })
    }
}

/// Every wall that this version knows, fastest first, with its abilities on this host.
#[derive(Clone, Debug)]
pub struct HostFacts {
    /// The walls in the order in which they are tried.
    pub walls: Vec<WallFacts>,
}

impl HostFacts {
    /// The facts of one wall.
    pub fn wall(&self, name: &str) -> Option<&WallFacts> {
        self.walls.iter().find(|wall| wall.provider.as_str() == name)
    }
}
