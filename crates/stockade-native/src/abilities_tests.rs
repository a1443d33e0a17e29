use super::*;

fn commands_of(landlock_found: Landlock) -> Ability {
    commands(&Machine { landlock: 0, landlock_found, ..Machine::look() })
}

#[test]
fn want_of_landlock_is_told_by_its_cause() {
    let found =
        [Landlock::Version(2), Landlock::Missing, Landlock::SwitchedOff, Landlock::Refused(1)];
    let says =
        ["has version 2 of it, and 3 is needed", "has none", "switched off", "filter refuses"];
    for (found, says) in found.into_iter().zip(says) {
        let Ability::Missing(obstacle) = commands_of(found) else { panic!("{found:?}") };
        assert!(obstacle.reason.contains(says), "{}", obstacle.reason);
        assert!(!obstacle.remedy.is_empty());
    }
}
