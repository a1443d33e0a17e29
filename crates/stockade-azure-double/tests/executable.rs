//! The executable, as tests in other languages use it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use serde_json::Value;

#[test]
fn executable_prints_its_variables_and_at_its_end_what_reached_it() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_stockade-azure-double"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let started: Value = serde_json::from_str(&line).unwrap();
    if started.get("cannot").is_some() {
        // Only root can make the rooms of its sandboxes; the executable has said so and ended.
        assert!(!child.wait().unwrap().success());
        return;
    }
    let endpoint = started["variables"]["STOCKADE_ACA_ENDPOINT"].as_str().unwrap();
    assert!(endpoint.starts_with("https://127.0.0.1:"), "{started}");
    drop(child.stdin.take());
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    let ended: Value = serde_json::from_str(&rest).unwrap();
    assert_eq!((&ended["log"], &ended["created"]), (&Value::Array(Vec::new()), &Value::from(0)));
    assert!(child.wait().unwrap().success());
}
