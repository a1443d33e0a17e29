//! A session ends by its age and when it is not used.

use crate::support::{Sessions, ended, wait_for_end};

#[test]
fn session_ends_at_its_age_and_names_the_limit_to_its_programs() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.text(&["create", "--name", "old", "--ttl", "2s"]);
    let supervisor = sessions.supervisor("old");
    let run = sessions.run(&["--json", "exec", "old", "--", "sleep", "60"]);
    let report = run.json();
    assert_eq!((run.code, report["outcome"].as_str()), (122, Some("limit_exceeded")), "{report}");
    assert_eq!(report["limit"], "max_lifetime_seconds");
    wait_for_end(supervisor);
    sessions.refused(&["exec", "old", "--", "true"], "there is no session", "stockade ls");
}

#[test]
fn unused_session_ends_and_one_with_a_program_does_not() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.text(&["create", "--name", "idle", "--idle", "1s"]);
    sessions.text(&["create", "--name", "busy", "--idle", "1s"]);
    let busy = sessions.start(&["exec", "busy", "--", "sh", "-c", "sleep 4; echo done"]);
    wait_for_end(sessions.supervisor("idle"));
    assert_eq!(sessions.text(&["ls", "-q"]), "busy\n");
    let run = ended(busy);
    assert_eq!((run.code, run.stdout.as_str()), (0, "done\n"), "{}", run.stderr);
    wait_for_end(sessions.supervisor("busy"));
    assert_eq!(sessions.text(&["ls", "-q"]), "");
}

#[test]
fn idle_session_hardly_wakes_up() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    sessions.sh("one", "true").text();
    let supervisor = sessions.supervisor("one");
    let switches = || -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{supervisor}/task")).unwrap().flatten();
        let of_task = |task: std::fs::DirEntry| {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let mut lines = status.lines();
            let line = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
            line.trim().parse::<u64>().ok()
        };
        tasks.filter_map(of_task).sum()
    };
    let before = switches();
    std::thread::park_timeout(std::time::Duration::from_secs(2));
    let woken = switches().saturating_sub(before);
    // A look every 20 ms would be at least 100.
    assert!(woken < 50, "it woke up {woken} times in 2 seconds");
}
