//! The example of a session.

use std::process::Command;

use crate::support::{Sessions, binary, examples, finish};

#[test]
fn example_of_a_session_runs_and_leaves_nothing() {
    let Some(sessions) = Sessions::new() else { return };
    let mut command = Command::new("bash");
    command.arg(examples().join("session.sh")).env("STOCKADE", binary());
    command.env("STOCKADE_STATE", sessions.state()).env("TMPDIR", sessions.place.path());
    command.env("XDG_STATE_HOME", sessions.place.path().join("records"));
    let run = finish(command.current_dir(sessions.place.path()));
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("from the host\nchanged inside\n"), "{}", run.stdout);
    assert!(run.stdout.ends_with("the session is gone\n"), "{}", run.stdout);
    assert_eq!(sessions.text(&["ls", "-q"]), "");
}
