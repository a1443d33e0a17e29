//! How runs end, and how Stockade reports it.

use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{
    Conversation, alone, binary, command, outside, processes, report, stockade, walls_can_be_built,
    within,
};
use stockade_testing::Scratch;

#[test]
fn report_is_one_object_in_which_each_control_names_its_mechanism() {
    if !walls_can_be_built() {
        return;
    }
    let (code, report) = report(&["--", "python3", "-c", "print(1)"]);
    assert_eq!(code, 0);
    assert_eq!((&report["outcome"], &report["exit_code"]), (&json!("exited"), &json!(0)));
    assert_eq!((&report["stdout"], &report["stderr"]), (&json!("1\n"), &json!("")));
    assert_eq!((&report["denials"], &report["limits_hit"]), (&json!([]), &json!([])));
    assert!(report["usage"].is_object() && report["duration_ms"].is_u64(), "{report}");
    assert_eq!(report["provider"], report["isolation"]["provider"]);
    let controls = report["isolation"]["controls"].as_array().unwrap();
    let named: Vec<&str> = controls.iter().filter_map(|held| held["control"].as_str()).collect();
    for wanted in
        ["isolation", "max_memory_mb", "max_pids", "hidden_host", "network_deny", "system_calls"]
    {
        assert!(named.contains(&wanted), "{wanted} is not in {named:?}");
    }
    for held in controls {
        assert!(!held["mechanism"].as_str().unwrap().is_empty(), "{held}");
        assert!(["exact", "approximate"].contains(&held["precision"].as_str().unwrap()), "{held}");
    }
}

#[test]
fn exit_code_of_the_program_is_passed_on() {
    if !walls_can_be_built() {
        return;
    }
    assert_eq!(stockade(&["--", "/bin/false"]).code, 1);
    let run = stockade(&["--", "sh", "-c", "exit 137"]);
    assert_eq!((run.code, run.messages().as_str()), (137, ""));
    let (code, report) = report(&["--", "sh", "-c", "exit 137"]);
    assert_eq!((code, &report["outcome"], &report["limit"]), (137, &json!("exited"), &Value::Null));
    assert_eq!(report["exit_code"], 137);
}

#[test]
fn report_names_the_signal_that_killed_the_program() {
    if !walls_can_be_built() {
        return;
    }
    for (name, number) in [("TERM", 15), ("SEGV", 11), ("KILL", 9), ("USR1", 10)] {
        let (code, report) = report(&["--", "sh", "-c", &format!("kill -{name} $$")]);
        assert_eq!((code, &report["outcome"]), (128 + number, &json!("signaled")), "{name}");
        let signal = json!({ "number": number, "name": format!("SIG{name}") });
        assert_eq!((&report["signal"], &report["exit_code"]), (&signal, &Value::Null));
    }
}

#[test]
fn missing_or_non_executable_program_is_reported_as_not_started() {
    if !walls_can_be_built() {
        return;
    }
    let (code, report_of_missing) = report(&["--", "no-such-program-at-all"]);
    assert_eq!((code, &report_of_missing["outcome"]), (127, &json!("not_started")));
    let why = &report_of_missing["not_started"];
    assert_eq!((&why["program"], &why["errno"]), (&json!("no-such-program-at-all"), &json!(2)));
    for (program, errno) in [("/etc/passwd", 13), ("/usr", 13), ("/nonexistent/x", 2)] {
        let (code, report) = report(&["--", program]);
        assert_eq!((code, &report["outcome"]), (127, &json!("not_started")), "{program}");
        assert_eq!(report["not_started"]["errno"], errno, "{program}");
    }
    let run = stockade(&["--", "no-such-program-at-all"]);
    assert!(run.stderr.contains("cannot start no-such-program-at-all"), "{}", run.stderr);
}

#[test]
fn timeout_ends_every_process_at_once() {
    if !walls_can_be_built() {
        return;
    }
    let sleeping = || processes().iter().any(|line| line.starts_with("sleep 98765"));
    let mut control = Command::new("sleep").arg("98765").spawn().unwrap();
    assert!(within(Duration::from_secs(5), sleeping), "a sleep of the host is seen");
    control.kill().unwrap();
    control.wait().unwrap();
    let quiet = alone();
    let run = stockade(&["--timeout", "1s", "--", "sh", "-c", "sleep 98765 & exec sleep 98765"]);
    assert_eq!(run.code, 124, "{}", run.stderr);
    assert!(run.elapsed < Duration::from_millis(1500), "{:?}", run.elapsed);
    assert!(!sleeping(), "a sleep is left");
    assert!(run.stderr.contains("timed out after 1s"), "{}", run.stderr);
    drop(quiet);
}

#[test]
fn signals_to_stockade_cancel_and_leave_nothing() {
    if !walls_can_be_built() {
        return;
    }
    for (signal, seconds) in
        [(Signal::INT, "98701"), (Signal::TERM, "98702"), (Signal::HUP, "98703")]
    {
        let script = format!("sleep {seconds} & echo ready; exec sleep {seconds}");
        // The caller of the tests may ignore a signal, which child processes inherit.
        let mut stockade = Command::new("env");
        stockade.arg("--default-signal").arg(binary());
        stockade.args(["run", "--quiet", "--", "sh", "-c", &script]);
        let mut run = Conversation::start(stockade);
        assert_eq!(run.hear(), "ready");
        let pid = Pid::from_child(&run.0);
        kill_process(pid, signal).unwrap();
        let status = run.0.wait().unwrap();
        assert_eq!(status.code(), Some(130), "{signal:?}");
        let marker = format!("sleep {seconds}");
        let left = || processes().iter().any(|line| line.starts_with(&marker));
        assert!(within(Duration::from_secs(2), || !left()), "{signal:?} leaves a process");
    }
}

#[test]
fn killing_stockade_ends_every_process_inside() {
    if !walls_can_be_built() {
        return;
    }
    let script = "setsid sleep 98711 & echo ready; exec sleep 98711";
    let mut run = Conversation::start(command(&["--", "sh", "-c", script]));
    assert_eq!(run.hear(), "ready");
    let left = || processes().iter().any(|line| line.starts_with("sleep 98711"));
    // The shell prints `ready` before it executes sleep.
    assert!(within(Duration::from_secs(2), left), "the sleeps are seen while they run");
    run.0.kill().unwrap();
    run.0.wait().unwrap();
    assert!(within(Duration::from_secs(1), || !left()), "a process outlives Stockade");
}

#[test]
fn closing_the_output_reader_cancels_the_run() {
    if !walls_can_be_built() {
        return;
    }
    let mut run = Conversation::start(command(&["--quiet", "--", "yes", "98721"]));
    assert_eq!(run.hear(), "98721");
    drop(run.0.stdout.take());
    let status = run.0.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    let left = || processes().iter().any(|line| line.starts_with("yes 98721"));
    assert!(within(Duration::from_secs(2), || !left()), "yes is left");
}

#[test]
fn policy_rule_denies_before_anything_starts() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let policy = scratch.file(
        "policy.yaml",
        "defaults: { action: allow }\nrules:\n  - { name: no-sockets, action: deny, \
         condition: { field: code, operator: contains, value: 'import socket' } }\n",
    );
    let script = scratch.file("script.py", "import socket\nprint('ran')\n");
    assert_eq!(outside(&["python3", &script]).text(), "ran\n");
    let (code, report) = report(&["--policy", &policy, &script]);
    assert_eq!((code, &report["outcome"]), (126, &json!("denied")), "{report}");
    assert_eq!((&report["stdout"], &report["exit_code"]), (&json!(""), &Value::Null));
    assert!(report["denials"][0]["rule"].to_string().contains("no-sockets"), "{report}");
    let run = stockade(&["--policy", &policy, &script]);
    assert!(run.stderr.contains("no-sockets") && run.stderr.contains("  = "), "{}", run.stderr);
    let harmless = scratch.file("harmless.py", "print('ran')\n");
    assert_eq!(stockade(&["--policy", &policy, &harmless]).text(), "ran\n");
}
