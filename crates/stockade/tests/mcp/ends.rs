//! What is left when a client goes.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::{Client, Place, finish, processes, wait_for};

/// Starts a program that runs until it is killed, with a mark in its command line.
fn start_endless(client: &mut Client, sandbox: &str, mark: &str) -> u64 {
    let arguments =
        json!({ "sandbox_id": sandbox, "command": ["sh", "-c", format!("sleep 600; : {mark}")] });
    let id = client.send("tools/call", json!({ "name": "run_command", "arguments": arguments }));
    wait_for("the program runs", || is_running(mark).then_some(()));
    id
}

fn is_running(mark: &str) -> bool {
    processes().iter().any(|line| line.contains(mark))
}

#[track_caller]
fn wait_for_end(place: &Place, mark: &str) {
    wait_for("the program ends", || (!is_running(mark)).then_some(()));
    place.wait_for_no_session();
}

#[test]
fn client_that_disconnects_leaves_nothing_running() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({}));
    client.create(json!({}));
    start_endless(&mut client, &sandbox, "mark-disconnect");
    assert_eq!(place.sessions().len(), 2);
    let before = std::time::Instant::now();
    assert_eq!(client.leave(), 0);
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    // The server waited for the end of everything.
    assert!(!is_running("mark-disconnect"));
    assert_eq!(place.sessions(), [""; 0]);
}

#[test]
fn server_that_is_killed_leaves_nothing_running() {
    for signal in [Signal::KILL, Signal::TERM] {
        let Some(place) = Place::new() else { return };
        let mut client = place.client(&[]);
        let sandbox = client.create(json!({}));
        start_endless(&mut client, &sandbox, "mark-killed");
        let server = Pid::from_child(&client.server.0);
        kill_process(server, signal).unwrap();
        wait_for_end(&place, "mark-killed");
    }
}

#[test]
fn client_that_disconnects_before_or_during_a_call_leaves_nothing() {
    let Some(place) = Place::new() else { return };
    // Before the first message.
    assert_eq!(place.connect(&[]).leave(), 0);
    // While a sandbox is created, at several moments.
    for wait in [0, 5, 20, 60] {
        let mut client = place.client(&[]);
        client.send("tools/call", json!({ "name": "create_sandbox", "arguments": {} }));
        std::thread::sleep(Duration::from_millis(wait));
        assert_eq!(client.leave(), 0);
        place.wait_for_no_session();
    }
}

#[test]
fn cancelled_call_ends_its_program_and_the_sandbox_stays() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({}));
    let id = start_endless(&mut client, &sandbox, "mark-cancelled");
    client.tell("notifications/cancelled", json!({ "requestId": id, "reason": "changed my mind" }));
    wait_for("the program ends", || (!is_running("mark-cancelled")).then_some(()));
    // The cancelled call is not answered: the next message answers the next call.
    assert_eq!(client.python(&sandbox, "print('still here')")["stdout"], "still here\n");
}

#[test]
fn kept_sandboxes_live_on_until_they_are_removed() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&["--keep"]);
    client.create(json!({ "name": "kept" }));
    client.python("kept", "open('note', 'w').write('from the client')");
    assert_eq!(client.leave(), 0);
    assert_eq!(place.sessions(), ["kept"]);
    let run = finish(place.command(&["exec", "kept", "--", "cat", "note"]));
    assert_eq!(run.text(), "from the client");
}

#[test]
fn sandbox_whose_time_is_over_is_gone_and_the_error_says_so() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({ "lifetime_seconds": 1 }));
    place.wait_for_no_session();
    let ended = wait_for("the supervisor is gone", || {
        let (message, remedy) = client_refused(&place, &sandbox);
        (!message.is_empty()).then_some(remedy)
    });
    assert!(ended.contains("ls"), "{ended}");
    let (message, remedy) = client.refused("list_files", json!({ "sandbox_id": sandbox }));
    assert!(message.contains(&sandbox), "{message}");
    assert!(remedy.contains("create_sandbox") || remedy.contains("list_sandboxes"), "{remedy}");
}

/// What `exec` says about a session that is gone.
fn client_refused(place: &Place, sandbox: &str) -> (String, String) {
    let run = finish(place.command(&["exec", sandbox, "--", "true"]));
    let (message, remedy) = run.stderr.split_once("\n  = ").unwrap_or_default();
    (message.to_owned(), remedy.to_owned())
}
