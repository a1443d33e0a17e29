//! The text output: the short answer, then one line per wall, or every control and the machine.
//! Pure.

use stockade_policy::Isolation;
use stockade_provider::{Ability, Obstacle, Precision};

use super::answer::Runnable;
use super::walls::{ControlOf, Wall};
use crate::policy::because;

/// The verdict on each wall, with the reasons for what is missing.
pub(super) fn verdicts(answer: &[Runnable], walls: &[Wall]) -> String {
    let mut text = short(answer, walls);
    text.push('\n');
    for wall in walls.iter().filter(|wall| wall.built_in && wall.obstacle.is_none()) {
        let (name, isolation) = (wall.provider.as_str(), wall.isolation.as_str());
        text.push_str(&format!("{name} wall, {isolation} isolation: {}\n", counts(&wall.controls)));
        // What the reduced wall lacks is the same on every host.
        if wall.isolation != Isolation::Reduced {
            reasons(&wall.controls, |ability| matches!(ability, Ability::Missing(_)), &mut text);
        }
    }
    let others: Vec<&str> =
        walls.iter().filter(|wall| !wall.built_in).map(|wall| wall.provider.as_str()).collect();
    if !others.is_empty() {
        text.push_str(&format!("not built in yet: {}\n", others.join(", ")));
    }
    text.push_str("\n`stockade doctor --verbose` lists every control, and the machine\n");
    text
}

/// How many controls a wall enforces, and how.
fn counts(controls: &[ControlOf]) -> String {
    let mut counts = [0_usize; 5];
    for ControlOf { ability, .. } in controls {
        let at = match ability {
            Ability::Enforced { precision: Precision::Exact, .. } => 0,
            Ability::Enforced { precision: Precision::Approximate, .. } => 1,
            Ability::Enforced { precision: Precision::Unverified, .. } => 2,
            Ability::Missing(_) => 3,
            Ability::NotBuiltIn(_) => 4,
        };
        counts[at] += 1;
    }
    let names = ["exact", "approximate", "unverified", "missing", "not built in"];
    let parts = counts.iter().zip(names).filter(|(count, _)| **count > 0);
    parts.map(|(count, name)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
}

/// The whole text. `machine` has names and values.
pub(super) fn text(answer: &[Runnable], walls: &[Wall], machine: &[(String, String)]) -> String {
    let mut text = short(answer, walls);
    for wall in walls.iter().filter(|wall| wall.built_in) {
        text.push('\n');
        section(wall, &mut text);
    }
    text.push('\n');
    for wall in walls.iter().filter(|wall| !wall.built_in) {
        let (name, isolation) = (wall.provider.as_str(), wall.isolation.as_str());
        text.push_str(&format!("{name} wall, {isolation} isolation: not built in yet\n"));
    }
    if !machine.is_empty() {
        text.push_str("\nmachine\n");
    }
    for (name, value) in machine {
        text.push_str(&format!("  {name:<45} {value}\n"));
    }
    text
}

/// The walls that can run, and why each other built-in one cannot.
fn short(answer: &[Runnable], walls: &[Wall]) -> String {
    let words: Vec<String> = answer.iter().map(Runnable::phrase).collect();
    let mut text = match words.is_empty() {
        true => "You can run: nothing\n".to_owned(),
        false => format!("You can run: {}\n", words.join("; ")),
    };
    for wall in walls.iter().filter(|wall| wall.built_in) {
        if let Some(obstacle) = &wall.obstacle {
            if !answer.is_empty() {
                text.push_str(&format!("You cannot run: {}\n", wall.provider));
            }
            text.push_str(&because(obstacle));
        }
    }
    text
}

fn section(wall: &Wall, text: &mut String) {
    let (name, isolation) = (wall.provider.as_str(), wall.isolation.as_str());
    match &wall.obstacle {
        Some(obstacle) => {
            text.push_str(&format!("{name} wall, {isolation} isolation: cannot be used here\n"));
            text.push_str(&because(obstacle));
        }
        None => {
            text.push_str(&format!("{name} wall, {isolation} isolation\n"));
            controls(&wall.controls, text);
        }
    }
}

/// One line per control, then each reason once.
fn controls(controls: &[ControlOf], text: &mut String) {
    for ControlOf { control, ability } in controls {
        let (state, mechanism) = match ability {
            Ability::Enforced { mechanism, precision: Precision::Exact } => ("exact", mechanism),
            Ability::Enforced { mechanism, precision: Precision::Approximate } => {
                ("approximate", mechanism)
            }
            Ability::Enforced { mechanism, precision: Precision::Unverified } => {
                ("unverified", mechanism)
            }
            Ability::Missing(_) => {
                text.push_str(&format!("  missing      {control}\n"));
                continue;
            }
            Ability::NotBuiltIn(_) => {
                text.push_str(&format!("  not built in {control}\n"));
                continue;
            }
        };
        text.push_str(&format!("  {state:<12} {control:<28} {mechanism}\n"));
    }
    reasons(controls, |_| true, text);
}

/// Each reason for a control that is not enforced, once, with the controls that it concerns.
fn reasons(controls: &[ControlOf], is_shown: impl Fn(&Ability) -> bool, text: &mut String) {
    let mut told: Vec<&Obstacle> = Vec::new();
    for ControlOf { ability, .. } in controls {
        if let Ability::Missing(obstacle) | Ability::NotBuiltIn(obstacle) = ability
            && !told.contains(&obstacle)
            && is_shown(ability)
        {
            told.push(obstacle);
            let concerned = controls.iter().filter(|other| other.ability == *ability);
            let names: Vec<&str> = concerned.map(|other| other.control).collect();
            text.push_str(&format!("  no {}\n", names.join(", ")));
            text.push_str(&because(obstacle));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use stockade_policy::Control;
    use stockade_provider::{HostFacts, ProgramKinds, ProviderName, WallFacts};

    use super::super::answer::answer;
    use super::super::walls::walls;
    use super::*;

    fn wall(name: &'static str, unusable: Option<Obstacle>) -> WallFacts {
        let abilities = BTreeMap::from([(
            Control::Isolation,
            Ability::Enforced { mechanism: "a test".to_owned(), precision: Precision::Exact },
        )]);
        let provider = ProviderName::new(name);
        let programs = ProgramKinds::ALL;
        WallFacts { provider, isolation: Isolation::Process, unusable, programs, abilities }
    }

    fn said(walls_here: Vec<WallFacts>) -> String {
        let facts = HostFacts { walls: walls_here };
        let machine = [("kernel".to_owned(), "6.1".to_owned())];
        text(&answer(&facts), &walls(&facts, |name| name != "qemu"), &machine)
    }

    fn obstacle() -> Obstacle {
        Obstacle { reason: "a knob forbids it".to_owned(), remedy: "turn it".to_owned() }
    }

    #[test]
    fn without_any_wall_the_reason_and_remedy_come_first() {
        let text = said(vec![wall("native", Some(obstacle())), wall("qemu", Some(obstacle()))]);
        let expected = "You can run: nothing\n  because a knob forbids it\n        = turn it\n\n\
                        native wall, process isolation: cannot be used here\n  \
                        because a knob forbids it\n        = turn it\n\n\
                        qemu wall, process isolation: not built in yet\n\n\
                        machine\n  kernel                                        6.1\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn first_screen_has_one_line_per_wall_and_names_verbose() {
        let facts = HostFacts {
            walls: vec![
                wall("native", None),
                wall("reduced", Some(obstacle())),
                wall("qemu", None),
            ],
        };
        let text = verdicts(&answer(&facts), &walls(&facts, |name| name != "qemu"));
        assert!(text.starts_with("You can run: native"), "{text}");
        assert!(
            text.contains("\nYou cannot run: reduced\n  because a knob forbids it\n"),
            "{text}"
        );
        assert!(text.contains("\nnative wall, process isolation: 1 exact, "), "{text}");
        assert!(text.contains("\nnot built in yet: qemu\n"), "{text}");
        assert!(
            text.ends_with("`stockade doctor --verbose` lists every control, and the machine\n")
        );
        assert!(!text.contains("a test"), "{text}");
    }

    #[test]
    fn unusable_wall_has_its_reason_even_if_another_is_usable() {
        let text = said(vec![wall("native", Some(obstacle())), wall("wasm", None)]);
        let mut lines = text.lines();
        assert!(lines.next().unwrap().starts_with("You can run: wasm, "), "{text}");
        assert_eq!(lines.next(), Some("You cannot run: native"));
        assert_eq!(lines.next(), Some("  because a knob forbids it"));
        assert_eq!(lines.next(), Some("        = turn it"));
    }

    #[test]
    fn control_unknown_to_a_wall_is_missing_with_its_reason() {
        let text = said(vec![wall("native", None)]);
        assert!(text.starts_with("You can run: native, without "), "{text}");
        assert!(text.contains("\n  exact        isolation                    a test\n"), "{text}");
        assert!(text.contains("\n  missing      tools\n"), "{text}");
        let reason = "  no tools\n  because the native wall does not know the control tools\n";
        assert!(text.contains(reason), "{text}");
    }
}
