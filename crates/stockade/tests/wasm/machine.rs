//! The micro-VM wall alone: its worker, and hosts that cannot run it.

use std::thread;
use std::time::Duration;

use stockade_testing::{finish, finish_with, wait_for};

use crate::sessions::Session;
use crate::support::{is_machine, named, stockade};

named![
    missing_worker_is_named_with_the_command_that_builds_it,
    host_without_a_usable_kvm_is_refused_with_the_reason_of_a_trial,
    killed_worker_is_a_typed_end_and_the_session_goes_on,
];

fn refused(variable: Option<(&str, &str)>) -> stockade_testing::Run {
    let mut command = stockade();
    command.args(["run", "--provider", "hyperlight", "--no-record", "--language", "python", "-"]);
    command.envs(variable);
    finish_with(command, b"print(1)")
}

fn missing_worker_is_named_with_the_command_that_builds_it() {
    let run = refused(Some(("STOCKADE_HYPERLIGHT_WORKER", "/nonexistent/worker")));
    assert_eq!(run.code, 125, "{run:?}");
    assert!(run.stderr.contains("/nonexistent/worker is missing"), "{run:?}");
    assert!(run.stderr.contains("cargo xtask hyperlight"), "{run:?}");
}

/// Where machines run, the trial says so; elsewhere the run has the trial's reason.
fn host_without_a_usable_kvm_is_refused_with_the_reason_of_a_trial() {
    let mut command = stockade();
    command.args(["doctor", "--json"]);
    let report = finish(command).json();
    let walls = report["walls"].as_array().expect("a list");
    let wall = walls.iter().find(|wall| wall["provider"] == "hyperlight").expect("it is listed");
    if is_machine() {
        return assert_eq!(wall["obstacle"], serde_json::Value::Null, "{wall:#}");
    }
    let reason = wall["obstacle"]["reason"].as_str().expect("no machine of this suite has KVM");
    let known =
        ["worker of the hyperlight wall is not built", "no /dev/kvm", "the KVM of this host"];
    assert!(known.iter().any(|known| reason.contains(known)), "{reason}");
    let run = refused(None);
    assert_eq!(run.code, 125, "{run:?}");
    assert!(run.stderr.contains(reason), "{run:?}");
}

/// The process of the only worker on this host.
fn worker() -> u32 {
    wait_for("the worker", || {
        let processes = std::fs::read_dir("/proc").ok()?;
        processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).find(
            |process: &u32| {
                let words = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
                words.starts_with(b"/hyperlight/worker\0serve\0")
            },
        )
    })
}

fn killed_worker_is_a_typed_end_and_the_session_goes_on() {
    if !is_machine() {
        return stockade_testing::not_run("the wall under test has no worker");
    }
    let session = Session::new();
    assert_eq!(session.run("print(1)").text(), "1\n");
    thread::scope(|scope| {
        let running = scope.spawn(|| session.run("import time; time.sleep(100)"));
        thread::sleep(Duration::from_secs(2));
        let process = rustix::process::Pid::from_raw(worker().cast_signed()).expect("a process");
        rustix::process::kill_process(process, rustix::process::Signal::KILL).expect("our own");
        let run = running.join().expect("no panic");
        assert!(run.stderr.contains("the micro-VM's worker has ended"), "{run:?}");
        assert_eq!(run.code, 134, "{run:?}");
    });
    assert_eq!(session.run("print('another worker')").text(), "another worker\n");
}
