//! The state directory is refused if another user could change it, or if it is corrupt.

use std::fs;
use std::os::unix::fs::symlink;

use stockade_testing::set_mode;

use crate::support::{Sessions, finish, is_root, not_run};

#[test]
fn linked_writable_or_corrupt_state_is_refused_by_every_command() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    sessions.text(&["rm", "one"]);
    let (state, moved) = (sessions.state(), sessions.place.path().join("moved"));
    let commands = [&["create"][..], &["ls"], &["rm", "one"], &["exec", "one", "--", "true"]];
    let each = |reason: &str, remedy: &str| {
        for words in commands {
            sessions.refused(words, reason, remedy);
        }
    };
    fs::rename(&state, &moved).unwrap();
    symlink(&moved, &state).unwrap();
    each("it is a symbolic link", "STOCKADE_STATE");
    fs::remove_file(&state).unwrap();
    fs::rename(&moved, &state).unwrap();
    set_mode(&state, 0o770);
    each("other users can write to it", "STOCKADE_STATE");
    set_mode(&state, 0o700);
    let strange = state.join("sessions/-strange");
    fs::create_dir(&strange).unwrap();
    each("its name is not that of a session", "remove");
    fs::remove_dir(&strange).unwrap();
    if is_root() {
        std::os::unix::fs::chown(&state, Some(65_534), None).unwrap();
        each("it belongs to another user", "STOCKADE_STATE");
        std::os::unix::fs::chown(&state, Some(0), None).unwrap();
    } else {
        not_run("only root can give a directory to another user");
    }
    sessions.create("one");
}

#[test]
fn state_of_a_session_is_open_only_to_its_owner() {
    use std::os::unix::fs::MetadataExt;
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let directory = sessions.state().join("sessions/one");
    for path in [sessions.state(), sessions.state().join("sessions"), directory.clone()] {
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700, "{}", path.display());
    }
    for name in ["lock", "session"] {
        let mode = fs::metadata(directory.join(name)).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name}");
    }
}

/// Without a variable that names another place, both are in the home of the user.
#[test]
fn sessions_and_records_of_a_user_without_a_runtime_directory_are_apart() {
    let Some(sessions) = Sessions::new() else { return };
    if is_root() {
        return not_run("the sessions of root are in /run/stockade");
    }
    let home = sessions.place.directory("home");
    let run = |words: &[&str]| {
        let mut command = sessions.command(words);
        command.env_remove("STOCKADE_STATE").env_remove("XDG_STATE_HOME").env("HOME", &home);
        finish(command.env_remove("XDG_RUNTIME_DIR"))
    };
    assert_eq!(run(&["run", "--", "echo", "recorded"]).text(), "recorded\n");
    assert_eq!(run(&["create", "--name", "one"]).text(), "one\n");
    let ran = run(&["exec", "one", "--", "echo", "ran"]);
    let removed = run(&["rm", "-f", "one"]);
    assert_eq!((ran.text(), removed.text()), ("ran\n", "one\n"));
}
