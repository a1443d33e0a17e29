use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn keep(machines: &SavedMachines, key: &Key, content: &[u8]) {
    let unfinished = machines.begin().unwrap();
    unfinished.file().unwrap().write_all(content).unwrap();
    machines.keep(key, unfinished).unwrap();
}

fn read(machines: &SavedMachines, key: &Key) -> Vec<u8> {
    match machines.find(key) {
        Found::State(mut state) => {
            let mut content = Vec::new();
            io::Read::read_to_end(&mut state, &mut content).unwrap();
            content
        }
        other => panic!("{other:?}"),
    }
}

fn unusable(machines: &SavedMachines, key: &Key) -> String {
    match machines.find(key) {
        Found::Unusable(reason) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn state_is_found_by_its_key_only_and_with_its_own_bytes() {
    let image = tempfile::tempdir().unwrap();
    let machines = SavedMachines::of(image.path());
    let (one, other) = (Key::of(&["image", "640"]), Key::of(&["image", "641"]));
    assert!(matches!(machines.find(&one), Found::Nothing));
    keep(&machines, &one, b"state");
    assert_eq!(read(&machines, &one), b"state");
    assert!(matches!(machines.find(&other), Found::Nothing));
    // The same bytes written again: another stamp, the same hash.
    fs::write(machines.state(&one), b"state").unwrap();
    assert_eq!(read(&machines, &one), b"state");
}

#[test]
fn damaged_state_is_removed_with_a_reason() {
    let image = tempfile::tempdir().unwrap();
    let machines = SavedMachines::of(image.path());
    let key = Key::of(&["image"]);
    keep(&machines, &key, b"state");
    fs::write(machines.state(&key), b"stale").unwrap();
    assert!(unusable(&machines, &key).contains("damaged: it hashes to"));
    assert!(matches!(machines.find(&key), Found::Nothing));
    keep(&machines, &key, b"state");
    fs::write(machines.description(&key), b"{}").unwrap();
    assert!(unusable(&machines, &key).contains("description is damaged"));
}

#[test]
fn place_that_others_can_open_is_refused() {
    let image = tempfile::tempdir().unwrap();
    let machines = SavedMachines::of(image.path());
    let key = Key::of(&["image"]);
    keep(&machines, &key, b"state");
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(&machines.directory, 0o770);
    assert!(unusable(&machines, &key).contains("only its owner"));
    assert!(machines.begin().err().unwrap().contains("only its owner"));
    mode(&machines.directory, 0o700);
    keep(&machines, &key, b"state");
    mode(&machines.state(&key), 0o606);
    assert!(unusable(&machines, &key).contains("another user can have written"));
}

#[test]
fn only_one_process_saves_at_a_time_and_unused_states_are_removed() {
    let image = tempfile::tempdir().unwrap();
    let machines = SavedMachines::of(image.path());
    let held = machines.begin().unwrap();
    assert!(machines.begin().err().unwrap().contains("another process"));
    drop(held);
    let keys: Vec<Key> = (0..MOST + 2).map(|number| Key::of(&[&number.to_string()])).collect();
    for key in &keys {
        keep(&machines, key, b"state");
        assert_eq!(read(&machines, &keys[0]), b"state", "it is used all the time");
    }
    assert!(matches!(machines.find(&keys[1]), Found::Nothing));
    let left = fs::read_dir(&machines.directory).unwrap().count();
    assert_eq!(left, 2 * MOST + 1, "states, descriptions and the lock");
    assert_eq!(read(&machines, keys.last().unwrap()), b"state");
}
