//! What the wall says about itself.

use stockade_testing::finish;

use crate::support::{directory, named, run_with, stockade};

named![
    doctor_lists_the_wall_with_its_controls,
    plan_says_what_holds_by_construction_and_what_is_refused,
    policy_with_commands_is_refused_by_name,
    floor_of_virtual_machines_holds_for_them_only,
];

fn doctor_lists_the_wall_with_its_controls() {
    let mut command = stockade();
    command.args(["doctor", "--json"]);
    let report = finish(command).json();
    let walls = report["walls"].as_array().expect("a list");
    let wall = walls
        .iter()
        .find(|wall| wall["provider"] == crate::support::wall())
        .expect("the wall is listed");
    assert_eq!(wall["unusable"], serde_json::Value::Null, "{wall:#}");
    assert!(wall.to_string().contains("by construction"), "{wall:#}");
}

fn plan(policy: &str) -> serde_json::Value {
    let (_scratch, path) = directory(&[("p.yaml", policy)]);
    let mut command = stockade();
    command.args(["policy", "plan", "--json"]).arg(path.join("p.yaml"));
    let report = finish(command).json();
    let walls = report["walls"].as_array().expect("a list").clone();
    walls
        .into_iter()
        .find(|wall| wall["provider"] == crate::support::wall())
        .expect("the wall is listed")
}

fn plan_says_what_holds_by_construction_and_what_is_refused() {
    let wall = plan("{}");
    assert_eq!(wall["enforceable"], true, "{wall:#}");
    let controls = wall["controls"].as_array().expect("a list");
    for name in ["max_pids", "system_calls", "network_deny"] {
        let control = controls.iter().find(|one| one["control"] == name).expect(name);
        let mechanism = control["mechanism"].as_str().expect("a mechanism");
        assert!(mechanism.starts_with("by construction"), "{control:#}");
    }
    let wall = plan("command_allowlist: [ls]");
    assert_eq!(wall["enforceable"], false, "{wall:#}");
    assert!(wall.to_string().contains("there are no commands behind this wall"), "{wall:#}");
}

fn policy_with_commands_is_refused_by_name() {
    let (_scratch, path) = directory(&[("p.yaml", "command_allowlist: [ls]")]);
    let policy = path.join("p.yaml");
    let run = run_with(&["--policy", policy.to_str().expect("text")], "print(1)");
    assert!(run.stderr.contains("there are no commands behind this wall"), "{run:?}");
    assert!(run.stderr.contains("remove command_allowlist"), "{run:?}");
}

fn floor_of_virtual_machines_holds_for_them_only() {
    let run = run_with(&["--isolation", "vm"], "print(1)");
    if crate::support::is_machine() {
        return assert_eq!(run.text(), "1\n");
    }
    assert!(run.stderr.contains("the wasm wall gives process isolation"), "{run:?}");
}
