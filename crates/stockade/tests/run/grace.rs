//! SIGTERM before SIGKILL: what a program may still do when it is cancelled or out of time.

use std::io::Read;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use stockade_testing::Scratch;

use crate::support::{Conversation, binary, finish, report, walls_can_be_built, within};

/// Says goodbye on SIGTERM.
const POLITE: &str = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done";

/// Does not end on SIGTERM.
const DEAF: &str = "trap 'echo heard' TERM; echo ready; while :; do sleep 0.05; done";

/// Starts a script under a policy. The caller of the tests may ignore a signal, which child
/// processes inherit.
fn start(policy: &str, script: &str) -> Conversation {
    let mut stockade = Command::new("env");
    stockade.arg("--default-signal").arg(binary());
    stockade.args(["run", "--quiet", "--policy", policy, "--", "sh", "-c", script]);
    let mut run = Conversation::start(stockade);
    assert_eq!(run.hear(), "ready");
    run
}

/// Sends SIGINT, and returns the exit code, the rest of the output and the time until the end.
fn interrupt(run: &mut Conversation) -> (Option<i32>, String, Duration) {
    let asked = Instant::now();
    kill_process(Pid::from_child(&run.0), Signal::INT).expect("Stockade runs");
    let mut rest = String::new();
    if let Some(mut stdout) = run.0.stdout.take() {
        stdout.read_to_string(&mut rest).expect("output is text");
    }
    (run.0.wait().expect("Stockade ends").code(), rest, asked.elapsed())
}

#[test]
fn cancelled_program_gets_sigterm_and_its_last_words_are_kept() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    // Longer than the default, so that a busy host cannot make the test fail.
    let policy = scratch.file("policy.yaml", "limits: { cancel_grace_seconds: 30 }\n");
    let (code, rest, elapsed) = interrupt(&mut start(&policy, POLITE));
    assert_eq!((code, rest.as_str()), (Some(130), "bye\n"));
    assert!(elapsed < Duration::from_secs(30), "it waits for the whole grace: {elapsed:?}");
}

#[test]
fn program_that_ignores_sigterm_is_killed_after_the_grace() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let policy = scratch.file("policy.yaml", "limits: { cancel_grace_seconds: 1 }\n");
    let (code, rest, elapsed) = interrupt(&mut start(&policy, DEAF));
    assert_eq!((code, rest.as_str()), (Some(130), "heard\n"));
    assert!(elapsed >= Duration::from_secs(1), "it is killed early: {elapsed:?}");
}

#[test]
fn without_a_grace_a_cancelled_program_is_killed_at_once() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let policy = scratch.file("policy.yaml", "limits: { cancel_grace_seconds: 0 }\n");
    let (code, rest, _) = interrupt(&mut start(&policy, POLITE));
    assert_eq!((code, rest.as_str()), (Some(130), ""));
}

#[test]
fn second_interrupt_ends_the_run_during_the_grace() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let policy = scratch.file("policy.yaml", "limits: { cancel_grace_seconds: 60 }\n");
    let mut run = start(&policy, DEAF);
    kill_process(Pid::from_child(&run.0), Signal::INT).unwrap();
    assert_eq!(run.hear(), "heard");
    let (code, _, elapsed) = interrupt(&mut run);
    assert_eq!(code, Some(130));
    assert!(elapsed < Duration::from_secs(30), "it waits for the grace: {elapsed:?}");
}

#[test]
fn second_interrupt_keeps_the_outcome_and_completes_the_record() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let heard = scratch.path().join("shown");
    std::fs::create_dir(&heard).unwrap();
    let text = format!(
        "limits: {{ cancel_grace_seconds: 60 }}\n\
         filesystem: {{ workspace: {{ host: {}, mode: write }} }}\n",
        heard.display()
    );
    let policy = scratch.file("policy.yaml", &text);
    let records = scratch.path().join("records");
    // Output arrives with the report, so files tell what the program has done.
    let script = "trap 'touch heard' TERM; touch ready; while :; do sleep 0.05; done";
    let mut stockade = Command::new("env");
    stockade.arg("--default-signal").arg(binary()).args(["run", "--json=short", "--record"]);
    stockade.arg(&records).args(["--policy", &policy, "--", "sh", "-c", script]);
    let mut run = Conversation::start(stockade);
    for name in ["ready", "heard"] {
        assert!(within(Duration::from_secs(30), || heard.join(name).exists()), "{name}");
        if name == "ready" {
            kill_process(Pid::from_child(&run.0), Signal::INT).unwrap();
        }
    }
    let (code, rest, elapsed) = interrupt(&mut run);
    assert!(elapsed < Duration::from_secs(30), "it waits for the grace: {elapsed:?}");
    assert_eq!(code, Some(130));
    let report: serde_json::Value = serde_json::from_str(&rest).unwrap();
    assert_eq!(report["outcome"], "cancelled", "{report}");
    let mut list = Command::new(binary());
    list.args(["audit", "ls", "--json", "--record"]).arg(&records);
    assert_eq!(finish(list).json()[0]["state"], "cancelled");
}

#[test]
fn defaults_are_two_seconds_for_an_interrupt_and_nothing_for_a_timeout() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let policy = scratch.file("policy.yaml", "{}\n");
    let (code, rest, elapsed) = interrupt(&mut start(&policy, DEAF));
    assert_eq!((code, rest.as_str()), (Some(130), "heard\n"));
    assert!(elapsed >= Duration::from_secs(2), "it is killed early: {elapsed:?}");
    let (code, report) = report(&["--timeout", "1s", "--", "sh", "-c", POLITE]);
    assert_eq!((code, &report["stdout"]), (124, &json!("ready\n")), "{report}");
}

#[test]
fn timeout_kills_at_once_unless_the_policy_grants_a_grace() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    for (grace, words) in [(0, "ready\n"), (30, "ready\nbye\n")] {
        let text = format!(
            "defaults: {{ timeout_seconds: 1 }}\nlimits: {{ timeout_grace_seconds: {grace} }}\n"
        );
        let policy = scratch.file("policy.yaml", &text);
        let (code, report) = report(&["--policy", &policy, "--", "sh", "-c", POLITE]);
        assert_eq!((code, &report["outcome"]), (124, &json!("timed_out")), "{grace}");
        assert_eq!(report["stdout"], json!(words), "{grace}");
    }
}
