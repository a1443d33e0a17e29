//! The short answer: which walls this host can run, and how strong they are. Pure.

use serde::Serialize;
use stockade_policy::{Control, Isolation};
use stockade_provider::{Ability, HostFacts, Precision, ProviderName, WallFacts};

/// A wall that can run here, and what this host lacks for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Runnable {
    /// The wall.
    pub(super) provider: ProviderName,
    /// How strong it is; a policy with a higher floor does not use it.
    pub(super) isolation: Isolation,
    /// Whether no other host would enforce more.
    pub(super) full_strength: bool,
    /// Controls that are enforced only approximately.
    pub(super) approximate: Vec<&'static str>,
    /// Controls that a service enforces by its own account.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unverified: Vec<&'static str>,
    /// Controls that this host cannot enforce; policies that need them are refused.
    pub(super) missing: Vec<&'static str>,
}

/// Every wall that can run, in the order of preference.
pub(super) fn answer(facts: &HostFacts) -> Vec<Runnable> {
    facts.walls.iter().filter(|wall| wall.unusable.is_none()).map(runnable).collect()
}

fn runnable(wall: &WallFacts) -> Runnable {
    let controls = |wanted: fn(&Ability) -> bool| -> Vec<&'static str> {
        Control::all()
            .into_iter()
            .filter(|control| wanted(&wall.ability(*control)))
            .map(Control::as_str)
            .collect()
    };
    let approximate = controls(|ability| {
        matches!(ability, Ability::Enforced { precision: Precision::Approximate, .. })
    });
    let unverified = controls(|ability| {
        matches!(ability, Ability::Enforced { precision: Precision::Unverified, .. })
    });
    let missing = controls(|ability| matches!(ability, Ability::Missing(_)));
    Runnable {
        provider: wall.provider.clone(),
        isolation: wall.isolation,
        full_strength: approximate.is_empty() && unverified.is_empty() && missing.is_empty(),
        approximate,
        unverified,
        missing,
    }
}

impl Runnable {
    /// A phrase such as `native, full strength`.
    pub(super) fn phrase(&self) -> String {
        let mut words = self.provider.to_string();
        if self.isolation == Isolation::Reduced {
            // A policy must opt in to this wall; listing what it lacks would hide the answer.
            words.push_str(", for policies that say `isolation: reduced`");
            return words;
        }
        if self.full_strength {
            words.push_str(", full strength");
        }
        if !self.approximate.is_empty() {
            words.push_str(&format!(", with {} held approximately", listed(&self.approximate)));
        }
        if !self.unverified.is_empty() {
            words.push_str(&format!(", with {} unverified", listed(&self.unverified)));
        }
        if !self.missing.is_empty() {
            words.push_str(&format!(", without {}", listed(&self.missing)));
        }
        words
    }
}

fn listed(names: &[&str]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => names.join(""),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use stockade_policy::Limit;
    use stockade_provider::{Obstacle, ProgramKinds};

    use super::*;

    fn obstacle() -> Obstacle {
        Obstacle { reason: "a reason".to_owned(), remedy: "a remedy".to_owned() }
    }

    fn wall(changes: &[(Control, Ability)]) -> WallFacts {
        let exact = |_| enforced(Precision::Exact);
        let mut abilities: BTreeMap<Control, Ability> =
            Control::all().into_iter().map(|control| (control, exact(control))).collect();
        abilities.extend(changes.iter().cloned());
        WallFacts {
            provider: ProviderName::new("native"),
            isolation: Isolation::Process,
            programs: ProgramKinds::ALL,
            unusable: None,
            abilities,
        }
    }

    fn enforced(precision: Precision) -> Ability {
        Ability::Enforced { mechanism: "a test".to_owned(), precision }
    }

    fn words(wall: WallFacts) -> Vec<String> {
        answer(&HostFacts { walls: vec![wall] }).iter().map(Runnable::phrase).collect()
    }

    #[test]
    fn wall_that_lacks_only_what_no_host_has_is_of_full_strength() {
        let tools = (Control::Tools, Ability::NotBuiltIn(obstacle()));
        assert_eq!(words(wall(&[tools])), ["native, full strength"]);
    }

    #[test]
    fn approximate_and_missing_controls_are_named() {
        let rough = |limit| (Control::Limit(limit), enforced(Precision::Approximate));
        let commands = (Control::Commands, Ability::Missing(obstacle()));
        assert_eq!(
            words(wall(&[rough(Limit::Memory), rough(Limit::Cpu), commands])),
            ["native, with max_cpu and max_memory_mb held approximately, without commands"]
        );
    }

    #[test]
    fn reduced_wall_names_the_policy_key_it_needs() {
        let wall = WallFacts { isolation: Isolation::Reduced, ..wall(&[]) };
        assert_eq!(words(wall), ["native, for policies that say `isolation: reduced`"]);
    }

    #[test]
    fn unusable_wall_is_not_listed() {
        let wall = WallFacts { unusable: Some(obstacle()), ..wall(&[]) };
        assert_eq!(words(wall), [""; 0]);
    }
}
