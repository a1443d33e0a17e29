//! Each command once, and its flags.

use std::time::Duration;

use serde_json::json;

use crate::support::{Sessions, finish_with, wait_for, wait_for_end};

#[test]
fn session_keeps_its_files_between_programs_and_leaves_nothing_after_rm() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let supervisor = sessions.supervisor("one");
    let run = sessions.sh("one", "echo kept > note; echo said; echo wrong >&2; exit 3");
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (3, "said\n", "wrong\n"));
    assert_eq!(sessions.sh("one", "cat note").text(), "kept\n");
    assert_eq!(sessions.text(&["ls", "-q"]), "one\n");
    assert_eq!(sessions.text(&["rm", "one"]), "one\n");
    assert_eq!(sessions.text(&["ls", "-q"]), "");
    assert_eq!(std::fs::read_dir(sessions.state().join("sessions")).unwrap().count(), 0);
    wait_for_end(supervisor);
}

#[test]
fn create_names_a_session_itself_and_describes_it_as_json() {
    let Some(sessions) = Sessions::new() else { return };
    let view = sessions.json(&["create", "--ttl", "30m", "--idle", "90s", "--memory", "64m"]);
    let name = view["name"].as_str().unwrap();
    assert!(name.starts_with("session-"), "{view}");
    assert_eq!((&view["state"], &view["provider"]), (&json!("running"), &json!("native")));
    assert_eq!((&view["ttl_seconds"], &view["idle_seconds"]), (&json!(1800), &json!(90)));
    assert!(view["policy_text"].as_str().unwrap().contains("max_memory_mb: 64"), "{view}");
    assert!(view["record"].is_string(), "{view}");
    assert_eq!(sessions.json(&["inspect", name])[0]["name"], view["name"]);
    let listed = sessions.json(&["ls"]);
    assert_eq!((&listed[0]["name"], &listed[0]["running"]), (&view["name"], &json!(0)));
}

#[test]
fn detached_program_is_listed_logged_signalled_and_ended() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let script = "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.05; done";
    let number = sessions.text(&["exec", "-d", "one", "--", "sh", "-c", script]);
    let number = number.trim();
    wait_for("the program is ready", || {
        sessions.text(&["logs", "one"]).contains("ready").then_some(())
    });
    assert_eq!(sessions.text(&["ps", "-q", "one"]).trim(), number);
    assert_eq!(sessions.text(&["kill", "-s", "INT", "one", number]).trim(), number);
    let ended = wait_for("the program ends", || {
        let all = sessions.json(&["ps", "-a", "one"]);
        (all[0]["state"] != "running").then(|| all[0].clone())
    });
    assert_eq!((&ended["state"], &ended["code"]), (&json!("exited"), &json!(7)));
    assert_eq!(sessions.text(&["logs", "one", number]), "ready\ncaught\n");
    assert_eq!(sessions.text(&["ps", "-q", "one"]), "");
}

#[test]
fn kill_without_a_number_ends_every_program_and_keeps_the_session() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    for _ in 0..2 {
        sessions.text(&["exec", "-d", "one", "--", "sleep", "60"]);
    }
    assert_eq!(sessions.text(&["kill", "one"]).lines().count(), 2);
    sessions.wait_for_programs("one", 0);
    assert_eq!(sessions.sh("one", "echo here").text(), "here\n");
}

#[test]
fn attached_client_receives_output_and_sends_input() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let marked = "read -r line; echo heard: $line; read -r line; echo again: $line";
    let mut first = stockade_testing::Conversation::start(
        sessions.command(&["exec", "-i", "one", "--", "sh", "-c", marked]),
    );
    sessions.wait_for_programs("one", 1);
    first.say("one");
    assert_eq!(first.hear(), "heard: one");
    let number = sessions.text(&["ps", "-q", "one"]);
    let attached = finish_with(sessions.command(&["attach", "one", number.trim()]), b"two\n");
    assert_eq!((attached.code, attached.stdout.as_str()), (0, "again: two\n"));
    assert_eq!(first.hear(), "again: two");
    assert_eq!(first.end(), 0);
}

#[test]
fn paused_session_stops_and_resumes() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let script = "while :; do echo tick; sleep 0.01; done";
    sessions.text(&["exec", "-d", "one", "--", "sh", "-c", script]);
    let ticks = || sessions.text(&["logs", "one", "0"]).lines().count();
    let more_than =
        |before: usize| wait_for("the program goes on", || (ticks() > before).then_some(()));
    more_than(0);
    let paused = sessions.run(&["pause", "one"]);
    if paused.code != 0 {
        // Without a freezer the wall refuses, and stops nothing.
        assert!(
            paused.stderr.contains("pause") && paused.stderr.contains("  = "),
            "{}",
            paused.stderr
        );
        assert_eq!(sessions.json(&["inspect", "one"])[0]["state"], "running");
        return more_than(ticks());
    }
    assert_eq!(sessions.json(&["inspect", "one"])[0]["state"], "paused");
    // What the program wrote before the pause may still arrive.
    let settled = wait_for("the output stands still", || {
        let before = ticks();
        std::thread::park_timeout(Duration::from_millis(300));
        (ticks() == before).then_some(before)
    });
    sessions.refused(&["exec", "one", "--", "true"], "the sandbox is paused", "resume");
    assert_eq!(ticks(), settled, "a paused program writes nothing");
    assert_eq!(sessions.json(&["resume", "one"]), json!({ "resumed": ["one"] }));
    assert_eq!(sessions.json(&["inspect", "one"])[0]["state"], "running");
    more_than(settled);
    assert_eq!(sessions.sh("one", "echo on").text(), "on\n");
}

#[test]
fn stats_count_what_a_session_used() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    sessions.sh("one", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done").text();
    let stats = sessions.json(&["stats"]);
    assert_eq!((&stats[0]["name"], &stats[0]["running"]), (&json!("one"), &json!(0)));
    assert!(sessions.text(&["stats", "one"]).starts_with("NAME"), "a table");
}

#[test]
fn prune_ends_only_sessions_without_programs_and_asks_first() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("busy");
    sessions.create("idle");
    sessions.text(&["exec", "-d", "busy", "--", "sleep", "60"]);
    sessions.refused(&["prune"], "prune would end 1 session with all files", "--force");
    assert_eq!(sessions.json(&["prune", "-f"]), json!({ "removed": ["idle"] }));
    assert_eq!(sessions.text(&["ls", "-q"]), "busy\n");
}

#[test]
fn followed_log_ends_with_the_session() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let follower = sessions.start(&["logs", "-f", "one"]);
    sessions.text(&["exec", "-d", "one", "--", "sh", "-c", "echo first; echo second"]);
    wait_for("the log has both lines", || {
        sessions.text(&["logs", "one"]).contains("second").then_some(())
    });
    sessions.text(&["rm", "-f", "one"]);
    let run = stockade_testing::ended(follower);
    assert_eq!((run.code, run.stdout.as_str()), (0, "first\nsecond\n"), "{}", run.stderr);
}

#[test]
fn followed_log_of_a_program_ends_with_it_and_unknown_programs_are_named() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let script = "echo first; while [ ! -e go ]; do sleep 0.05; done; echo second";
    let number = sessions.text(&["exec", "-d", "one", "--", "sh", "-c", script]);
    let follower = sessions.start(&["logs", "-f", "one", number.trim()]);
    assert_eq!(sessions.sh("one", "echo of another; touch go").code, 0);
    let run = stockade_testing::ended(follower);
    assert_eq!((run.code, run.stdout.as_str()), (0, "first\nsecond\n"), "{}", run.stderr);
    // The same once it has ended.
    assert_eq!(sessions.text(&["logs", "-f", "one", number.trim()]), "first\nsecond\n");
    sessions.refused(&["logs", "one", "999"], "the session has no execution 999", "stockade ps");
}
