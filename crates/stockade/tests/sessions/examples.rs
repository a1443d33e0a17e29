//! The examples with sessions.

use std::process::Command;

use crate::support::{Run, Sessions, binary, examples, finish};

/// Runs an example, and returns its output if no session is left.
fn example(sessions: &Sessions, name: &str) -> Run {
    let mut command = Command::new("bash");
    command.arg(examples().join(name)).env("STOCKADE", binary());
    command.env("STOCKADE_STATE", sessions.state()).env("TMPDIR", sessions.place.path());
    command.env("XDG_STATE_HOME", sessions.place.path().join("records"));
    command.env("STOCKADE_STORE", sessions.store());
    let run = finish(command.current_dir(sessions.place.path()));
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert_eq!(sessions.text(&["ls", "-q"]), "");
    run
}

#[test]
fn first_hour_of_a_new_user_runs_as_written() {
    let Some(sessions) = Sessions::new() else { return };
    let run = example(&sessions, "first-hour.sh");
    for line in [
        "Hello from inside the stockade",
        "3 words\nthe project is unchanged\n",
        "writing to the project failed with ",
        "the result outside: 3\n",
        "without permission: refused\nfetched 3\n",
        "kept between programs\nkept between programs\n",
        "every run has its record\nnothing is left\n",
    ] {
        assert!(run.stdout.contains(line), "{line}: {}{}", run.stdout, run.stderr);
    }
}

#[test]
fn example_of_a_context_runs_as_written() {
    let Some(sessions) = Sessions::new() else { return };
    let run = example(&sessions, "contexts.sh");
    let expected = "5\nthe call ended with 1\nIndexError: list index out of range\nJUMPS\n\
                    <b>bold</b>\n5 words\nFalse\nnothing is left\n";
    assert_eq!(run.stdout, expected, "{}", run.stderr);
}

#[test]
fn example_of_a_session_runs_and_leaves_nothing() {
    let Some(sessions) = Sessions::new() else { return };
    let run = example(&sessions, "session.sh");
    assert!(run.stdout.contains("from the host\nchanged inside\n"), "{}", run.stdout);
    assert!(run.stdout.ends_with("the session is gone\n"), "{}", run.stdout);
}

#[test]
fn example_of_time_travel_runs_and_leaves_nothing() {
    let Some(sessions) = Sessions::new() else { return };
    let run = example(&sessions, "time-travel.sh");
    for line in [
        "everything is gone\nfour\nresult\n",
        "-one\n+ONE1\n",
        "+idea 3\n",
        "applied      modified src/list\nONE2\ntwo\nthree\nfour\nnotes\nsrc\n",
        "checkpoints  0\nblobs        0\nnothing is left\n",
    ] {
        assert!(run.stdout.contains(line), "{line}: {}{}", run.stdout, run.stderr);
    }
}
