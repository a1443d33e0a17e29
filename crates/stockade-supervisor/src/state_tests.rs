use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn name(text: &str) -> SessionName {
    SessionName::parse(text).unwrap()
}

#[test]
fn claimed_name_is_listed_and_taken_until_it_is_dropped() {
    let place = tempfile::tempdir().unwrap();
    let state = State::open(&place.path().join("state")).unwrap();
    let claimed = state.claim(&name("one"), 7).unwrap();
    let listed = Listed { name: "one".to_owned(), supervisor: std::process::id(), created: 7 };
    assert_eq!(state.list().unwrap(), [listed]);
    assert!(matches!(state.claim(&name("one"), 8), Err(StateError::Taken { .. })));
    assert!(state.socket(&name("one")).is_ok());
    drop(claimed);
    assert_eq!(state.list().unwrap(), []);
    assert!(matches!(state.socket(&name("one")), Err(StateError::Unknown { .. })));
    assert_eq!(fs::read_dir(place.path().join("state/sessions")).unwrap().count(), 0);
}

#[test]
fn directory_of_a_dead_supervisor_is_swept() {
    let place = tempfile::tempdir().unwrap();
    let state = State::open(place.path()).unwrap();
    let left = place.path().join("sessions/left");
    DirBuilder::new().mode(0o700).create(&left).unwrap();
    fs::write(left.join("session"), "{").unwrap();
    fs::write(left.join("socket"), "").unwrap();
    assert_eq!(state.list().unwrap(), []);
    assert!(!left.exists());
}

#[test]
fn socket_is_found_without_looking_at_other_sessions_and_never_of_a_dead_one() {
    let place = tempfile::tempdir().unwrap();
    let state = State::open(place.path()).unwrap();
    let _one = state.claim(&name("one"), 7).unwrap();
    let other = state.claim(&name("other"), 7).unwrap();
    fs::write(place.path().join("sessions/other/session"), "not JSON").unwrap();
    assert!(state.socket(&name("one")).is_ok());
    assert!(matches!(state.socket(&name("other")), Err(StateError::Corrupt { .. })));
    drop(other);
    let left = place.path().join("sessions/left");
    DirBuilder::new().mode(0o700).create(&left).unwrap();
    assert!(matches!(state.socket(&name("left")), Err(StateError::Unknown { .. })));
    assert!(!left.exists(), "what a dead supervisor left is removed");
    fs::create_dir(place.path().join("sessions/-x")).unwrap();
    assert!(matches!(state.socket(&name("one")), Err(StateError::Corrupt { .. })));
}

#[test]
fn linked_writable_and_corrupt_state_is_refused_with_a_remedy() {
    let place = tempfile::tempdir().unwrap();
    let real = place.path().join("real");
    State::open(&real).unwrap();
    let link = place.path().join("link");
    symlink(&real, &link).unwrap();
    let refused = State::open(&link).unwrap_err();
    assert!(refused.to_string().contains("symbolic link"), "{refused}");
    assert!(refused.remedy().contains("STOCKADE_STATE"), "{}", refused.remedy());
    fs::set_permissions(&real, fs::Permissions::from_mode(0o777)).unwrap();
    let refused = State::open(&real).unwrap_err();
    assert!(refused.to_string().contains("other users can write"), "{refused}");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o700)).unwrap();
    let state = State::open(&real).unwrap();
    let claimed = state.claim(&name("one"), 7).unwrap();
    fs::write(real.join("sessions/one/session"), "not JSON").unwrap();
    let refused = state.list().unwrap_err();
    assert!(matches!(refused, StateError::Corrupt { .. }), "{refused}");
    drop(claimed);
    fs::create_dir(real.join("sessions/-x")).unwrap();
    assert!(matches!(state.list(), Err(StateError::Corrupt { .. })));
}

#[test]
fn directory_of_another_user_is_refused() {
    if !geteuid().is_root() {
        stockade_testing::not_run("only root can give a directory to another user");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let state = place.path().join("state");
    State::open(&state).unwrap();
    std::os::unix::fs::chown(&state, Some(65534), None).unwrap();
    let refused = State::open(&state).unwrap_err();
    assert!(refused.to_string().contains("belongs to another user"), "{refused}");
}

#[test]
fn names_are_short_and_plain() {
    for good in ["a", "A-1_b.c", &"x".repeat(63)] {
        assert!(SessionName::parse(good).is_ok(), "{good}");
    }
    for bad in ["", ".", "..", "-a", "a/b", "a b", "ä", &"x".repeat(64)] {
        assert!(SessionName::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn socket_in_a_directory_with_a_long_path_can_be_used() {
    let place = tempfile::tempdir().unwrap();
    let state = State::open(&place.path().join("d".repeat(150))).unwrap();
    let claimed = state.claim(&name("one"), 0).unwrap();
    let _listener = claimed.listen().unwrap();
    let socket = state.socket(&name("one")).unwrap();
    let connect = |path: &Path| std::os::unix::net::UnixStream::connect(path);
    through_descriptor(&socket, connect).unwrap();
}
