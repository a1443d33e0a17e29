//! Sessions in containers whose programs take all memory or start processes without end.

use std::time::{Duration, Instant};

use crate::state::Sessions;
use crate::support::{containers, directory, finish, tests};
use stockade_testing::{engine, wait_for};

tests![
    session_that_runs_out_of_memory_says_so,
    fork_bomb_with_a_timeout_does_not_cost_the_session,
    removed_session_is_answered_soon_and_leaves_nothing,
];

fn session_that_runs_out_of_memory_says_so(runtime: &'static str) {
    let sessions = Sessions::new();
    let large = ["python3", "-c", "bytearray(400 << 20); print('fits')"];
    let run = |name: &str, memory: &str| {
        sessions.create(name, runtime, &["--memory", memory]);
        sessions.run(&[&["exec", "--json", name, "--"], &large[..]].concat())
    };
    assert_eq!(run("large", "900m").json()["stdout"], "fits\n");
    let ended = run("small", "100m");
    assert_eq!(ended.json()["outcome"], "out_of_memory", "{ended:?}");
    let next = sessions.run(&["exec", "small", "--", "echo", "next"]);
    match runtime {
        // There the limit is that of the whole sandbox, and ends it.
        "runsc" => assert!(next.code != 0 && !next.stdout.contains("next"), "{next:?}"),
        _ => assert_eq!(next.text(), "next\n"),
    }
}

fn fork_bomb_with_a_timeout_does_not_cost_the_session(runtime: &'static str) {
    let sessions = Sessions::new();
    // The default number of processes.
    sessions.create("work", runtime, &[]);
    sessions.text(&["exec", "work", "--", "sh", "-c", "echo kept > file"]);
    let bomb = "bomb() { bomb | bomb & }; bomb; while :; do sleep 1; done";
    let ended = sessions.run(&["exec", "--timeout", "8s", "work", "--", "bash", "-c", bomb]);
    assert_eq!(ended.code, 124, "{ended:?}");
    assert!(ended.stderr.contains("fork"), "no process was refused: {ended:?}");
    assert_eq!(sessions.text(&["exec", "work", "--", "cat", "file"]), "kept\n");
}

fn removed_session_is_answered_soon_and_leaves_nothing(runtime: &'static str) {
    let sessions = Sessions::new();
    sessions.create("work", runtime, &[]);
    sessions.text(&["exec", "-d", "work", "--", "sleep", "86404"]);
    let sandbox = sessions.run(&["ls", "--json"]);
    assert!(sandbox.stdout.contains("work"), "{sandbox:?}");
    let own = own_containers(&sessions);
    assert_eq!(own.len(), 1, "{own:?}");
    let start = Instant::now();
    sessions.text(&["rm", "-f", "work"]);
    // The bench row docker-destroy has the figure; this only excludes a wait for the container.
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(sessions.text(&["ls", "-q"]), "");
    // Other tests have containers on the same engine.
    wait_for("the container of the session is removed", || {
        let left = containers("stockade.sandbox");
        own.iter().all(|id| !left.contains(id)).then_some(())
    });
}

/// The containers whose owner is the supervisor of the session `work`.
fn own_containers(sessions: &Sessions) -> Vec<String> {
    let inspected = sessions.run(&["--json", "inspect", "work"]).json();
    let supervisor = inspected[0]["supervisor"].as_u64().expect("a session has a supervisor");
    let label = |id: &String| {
        let format = "{{index .Config.Labels \"stockade.owner\"}}";
        // Fails if the container of another test is gone by now.
        finish(engine::client(&directory()).args(["inspect", "--format", format, id])).stdout
    };
    let own = format!("{supervisor}.");
    containers("stockade.sandbox").into_iter().filter(|id| label(id).starts_with(&own)).collect()
}
