//! Mistakes of the caller, each with its remedy.

use crate::support::Sessions;

#[test]
fn unknown_sessions_are_refused_by_every_command() {
    let Some(sessions) = Sessions::new() else { return };
    let file = sessions.place.file("code.sh", "true");
    for words in [
        &["exec", "none", "--", "true"][..],
        &["code", "none", &file],
        &["ps", "none"],
        &["attach", "none", "1"],
        &["kill", "none"],
        &["inspect", "none"],
        &["logs", "none"],
        &["stats", "none"],
        &["pause", "none"],
        &["resume", "none"],
        &["rm", "none"],
        &["rm", "-f", "none"],
    ] {
        sessions.refused(words, "there is no session named none", "stockade ls");
    }
}

#[test]
fn bad_and_taken_names_are_refused() {
    let Some(sessions) = Sessions::new() else { return };
    for name in ["", "a/b", "..", "-x", "a b", &"n".repeat(64)] {
        let name = format!("--name={name}");
        sessions.refused(&["create", &name], "is not a valid name", "letters, digits");
    }
    sessions.refused(&["rm", "../x"], "is not a valid name", "letters, digits");
    sessions.create("one");
    sessions.refused(&["create", "--name", "one"], "named one exists already", "rm -f one");
    assert_eq!(sessions.sh("one", "echo mine").text(), "mine\n");
}

#[test]
fn mistakes_in_the_sandbox_are_reported_in_full_and_leave_no_session() {
    let Some(sessions) = Sessions::new() else { return };
    let policy = sessions.place.file("policy.yaml", "nonsense: 1");
    let run = sessions.run(&["create", "--policy", &policy]);
    assert_eq!(run.code, 125, "{run:?}");
    assert!(run.stderr.contains("nonsense") && run.stderr.contains("  = "), "{}", run.stderr);
    let error = sessions.json(&["create", "--policy", &policy]);
    assert_eq!(error["error"]["diagnostics"][0]["line"], 1, "{error}");
    sessions.refused(&["create", "--mount", "nowhere"], "--mount nowhere", "--mount ./data:/data");
    sessions.refused(
        &["create", "--provider", "kubernetes"],
        "not built into this version",
        "--provider",
    );
    sessions.refused(&["create", "--ttl", "soon"], "--ttl soon", "--ttl 30s");
    assert_eq!(sessions.text(&["ls", "-q"]), "");
}

#[test]
fn flags_of_create_only_tighten_a_policy() {
    let Some(sessions) = Sessions::new() else { return };
    let policy = sessions.place.file("policy.yaml", "limits: { max_lifetime_seconds: 60 }");
    let words = ["create", "--policy", &policy, "--ttl", "2m"];
    sessions.refused(&words, "--ttl 2m would widen the policy", "only tightens");
}

#[test]
fn session_with_programs_is_removed_only_by_force() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    sessions.text(&["exec", "-d", "one", "--", "sleep", "60"]);
    sessions.refused(&["rm", "one"], "1 program runs in it", "--force");
    assert_eq!(sessions.text(&["rm", "--force", "one"]), "one\n");
}

#[test]
fn unknown_programs_signals_and_terminals_are_refused() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    sessions.refused(&["attach", "one", "9"], "execution 9 does not run", "stockade ps");
    sessions.refused(&["kill", "one", "9"], "execution 9 does not run", "stockade ps");
    sessions.refused(&["kill", "-s", "NOPE", "one"], "no signal is called `NOPE`", "INT");
    sessions.refused(&["exec", "-it", "one", "--", "sh"], "is not a terminal", "--tty");
    sessions.refused(&["shell", "one"], "is not a terminal", "--tty");
    sessions.refused(&["exec", "-e", "LD_PRELOAD=x", "one", "--", "sh"], "LD_PRELOAD", "workspace");
    let long = "x".repeat(2 << 20);
    let file = sessions.place.file("long.sh", format!("exec true {long}"));
    assert_eq!(sessions.run(&["code", "one", &file]).code, 126);
}
