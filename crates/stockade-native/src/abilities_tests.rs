use stockade_provider::Precision;

use super::*;

fn commands_of(landlock_found: Landlock) -> Ability {
    commands(&Machine { landlock: 0, landlock_found, ..Machine::look() })
}

#[test]
fn missing_landlock_is_reported_with_its_cause() {
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

#[test]
fn host_without_egress_lacks_only_the_egress_controls() {
    let (machine, layout) = (Machine::look(), Layout::foresee());
    let obstacle = Obstacle { reason: "no nftables".to_owned(), remedy: "load it".to_owned() };
    let with = abilities(&machine, &layout, None);
    let without = abilities(&machine, &layout, Some(&obstacle));
    for control in Control::all() {
        let lacking = Ability::Missing(obstacle.clone());
        match control {
            Control::NetworkHosts | Control::NetworkPublic => {
                assert!(matches!(with[&control], Ability::Enforced { .. }));
                assert_eq!(without[&control], lacking);
            }
            _ => assert_eq!(with[&control], without[&control]),
        }
    }
}

#[test]
fn sockets_are_exact_from_landlock_9_on() {
    let precision = |landlock| match host_sockets(landlock) {
        Ability::Enforced { precision, mechanism } => (precision, mechanism),
        other => panic!("{other:?}"),
    };
    assert_eq!(precision(9).0, Precision::Exact);
    for landlock in [0, 3, 8] {
        let (precision, mechanism) = precision(landlock);
        assert_eq!(precision, Precision::Approximate);
        assert_eq!(mechanism.contains("two sandboxes"), landlock == 0, "{mechanism}");
    }
}
