//! Two users of one machine cannot see or touch each other's sessions.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::support::{Run, Sessions, binary, finish, is_root, not_run};

#[test]
fn user_cannot_see_use_or_end_the_session_of_another() {
    if !is_root() {
        return not_run("only root can be two users");
    }
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    // Others may not read the clone that the binary is in.
    let copy = sessions.place.path().join("stockade");
    std::fs::copy(binary(), &copy).unwrap();
    let home = sessions.place.path().join("home");
    std::fs::create_dir(&home).unwrap();
    chown(&home, Some(65_534), Some(65_534)).unwrap();
    let other = |state: &std::path::Path, words: &[&str]| -> Run {
        let mut command = Command::new(&copy);
        command.args(words).uid(65_534).gid(65_534).env("HOME", &home).current_dir("/");
        finish(command.env("STOCKADE_STATE", state))
    };
    let own = home.join("state");
    // Works where it is allowed: in the other user's own state, with the same name.
    assert_eq!(other(&own, &["create", "--name", "one"]).text(), "one\n");
    assert_eq!(other(&own, &["exec", "one", "--", "echo", "mine"]).text(), "mine\n");
    for words in [
        &["ls"][..],
        &["exec", "one", "--", "true"],
        &["rm", "-f", "one"],
        &["create", "--name", "two"],
    ] {
        let run = other(&sessions.state(), words);
        assert_eq!(run.code, 125, "{words:?}: {run:?}");
        assert!(run.stderr.contains("belongs to another user"), "{}", run.stderr);
    }
    let socket = sessions.state().join("sessions/one/socket");
    let connect = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])";
    let mut command = Command::new("python3");
    command.args(["-c", connect]).arg(&socket).current_dir("/");
    assert_eq!(finish(&mut command).code, 0, "root itself can connect");
    let refused = finish(command.uid(65_534).gid(65_534));
    assert!(refused.stderr.contains("Permission"), "{}", refused.stderr);
    assert_eq!(sessions.sh("one", "echo still").text(), "still\n");
    assert_eq!(other(&own, &["rm", "one"]).text(), "one\n");
    // Root does not use another user's state by mistake either.
    let mut command = sessions.command(&["ls"]);
    assert_eq!(finish(command.env("STOCKADE_STATE", &own)).code, 125);
}
