//! `stockade audit follow`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::{Records, walls_can_be_built};

#[test]
fn follow_prints_events_while_the_program_runs_and_ends_with_it() {
    if !walls_can_be_built() {
        return;
    }
    let records = Records::new();
    let mut command = records.command(&["run", "--", "sh", "-c", "echo ready; read line"]);
    let mut run = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(run.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "ready\n");
    let mut follow =
        records.command(&["audit", "follow", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    let mut kind = || -> Option<String> {
        let event: serde_json::Value = serde_json::from_str(&lines.next()?.unwrap()).unwrap();
        Some(event["kind"].as_str().unwrap().to_owned())
    };
    for wanted in ["session_started", "verdict", "execution_started"] {
        assert_eq!(kind().as_deref(), Some(wanted));
    }
    // No end event exists while the program still waits for its input.
    drop(run.stdin.take());
    assert_eq!(run.wait().unwrap().code(), Some(1));
    for wanted in ["execution_ended", "session_ended"] {
        assert_eq!(kind().as_deref(), Some(wanted));
    }
    assert_eq!(kind(), None);
    assert!(follow.wait().unwrap().success());
}

#[test]
fn follow_ends_when_stockade_is_killed() {
    if !walls_can_be_built() {
        return;
    }
    let records = Records::new();
    let mut command = records.command(&["run", "--", "sh", "-c", "echo ready; sleep 60"]);
    let mut run = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(run.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let follow = records
        .command(&["audit", "follow"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    run.kill().unwrap();
    run.wait().unwrap();
    let output = follow.wait_with_output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no end"), "{said}");
}
