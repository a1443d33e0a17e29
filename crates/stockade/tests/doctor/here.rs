//! The actual host.

use serde_json::Value;

use crate::leftovers::{Host, binary};
use crate::refusing::finish;
use crate::support::{
    Scratch, control_of, doctor_here, error, json, patiently, refusals, stockade, wall, words,
};

#[test]
fn short_answer_is_first_and_output_has_no_colour() {
    let _alone = Host::alone();
    let run = finish(stockade(&["doctor"]));
    let first = run.stdout.lines().next().unwrap_or_default().to_owned();
    assert!(first.starts_with("You can run: "), "{}", run.stdout);
    assert_eq!((run.stderr.as_str(), run.stdout.contains('\u{1b}')), ("", false));
    assert!(run.stdout.lines().count() <= 24, "more than one screen: {}", run.stdout);
    let run = finish(stockade(&["doctor", "--verbose"]));
    assert_eq!(run.stdout.lines().next().unwrap_or_default(), first);
    let walls = ["native", "wasm", "docker", "kubernetes", "hyperlight", "qemu", "aca"];
    let machine = [
        "kernel ",
        "Landlock ",
        "seccomp ",
        "container ",
        "newuidmap ",
        "account for --as-user ",
        "/dev/kvm ",
    ];
    for word in walls.iter().chain(&machine).chain(&["user.max_user_namespaces ", "python "]) {
        let named = run.stdout.lines().any(|line| line.trim_start().starts_with(word));
        assert!(named, "{word} is not named: {}", run.stdout);
    }
}

/// The built-in walls, each with the highest `isolation` floor that it satisfies.
const WALLS: [(&str, &str); 2] = [("native", "process"), ("reduced", "reduced")];

#[test]
fn run_enforces_what_doctor_reports_as_enforceable() {
    let _alone = Host::alone();
    let scratch = Scratch::new();
    let (code, doctor) = doctor_here();
    let mut usable = Vec::new();
    for (provider, isolation) in WALLS {
        let wall = wall(&doctor, provider);
        let policy = scratch.policy(&format!("isolation: {isolation}\n"));
        let plan = ["policy", "plan", &policy, "--provider", provider, "--json"];
        let (planned, plan) = patiently(|| json(stockade(&plan), &[]));
        let run = ["run", "--json", "--provider", provider, "--isolation", isolation];
        let (ran, report) = json(stockade(&[&run[..], &["--", "/bin/true"]].concat()), &[]);
        if wall["usable"] == false {
            assert_eq!((planned, ran), (Some(125), Some(125)), "{provider}: {report}");
            let obstacle = words(&wall["obstacle"]);
            assert_eq!(
                refusals(&plan),
                std::slice::from_ref(&obstacle),
                "{provider}: doctor and plan"
            );
            let (message, remedy) = error(&report);
            assert!(message.ends_with(&obstacle.0), "{provider}: {message} and {obstacle:?}");
            assert_eq!(remedy, obstacle.1, "{provider}: doctor and run");
            continue;
        }
        assert_eq!((planned, ran), (Some(0), Some(0)), "{provider}: {plan} {report}");
        assert_eq!(report["provider"], provider);
        usable.push(provider);
        let held = report["isolation"]["controls"].as_array().expect("controls are a list");
        assert!(held.len() > 15, "{report}");
        for held in held {
            let name = held["control"].as_str().expect("controls have names");
            let said = &control_of(wall, name)["enforced"];
            let both = |value: &Value| (value["mechanism"].clone(), value["precision"].clone());
            assert_eq!(both(said), both(held), "{provider}: {name}");
        }
    }
    let can_run: Vec<&str> = doctor["can_run"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|wall| wall["provider"].as_str())
        .collect();
    assert_eq!(can_run, usable, "the short answer is that of the walls");
    assert_eq!(code, Some(if usable.is_empty() { 125 } else { 0 }));
}

#[test]
fn plan_refuses_what_doctor_reports_as_missing_with_the_same_text() {
    let _alone = Host::alone();
    let scratch = Scratch::new();
    let (_, doctor) = doctor_here();
    let clauses = [
        ("commands", "command_allowlist: [ls]\n"),
        ("hide_paths", "filesystem: { read: [/usr/share], hide: [/usr/share/doc] }\n"),
        ("moved_paths", "filesystem: { read: [{ host: /usr/share, guest: /data }] }\n"),
        ("workspace_layer", "filesystem: { workspace: { host: /usr/share, mode: overlay } }\n"),
        ("max_io_bytes_per_second", "limits: { max_io_bytes_per_second: 1000000 }\n"),
        ("network_hosts", "network_allowlist: [example.org]\n"),
        ("network_requests", "network_allowlist: [{host: example.org, methods: [GET]}]\n"),
        ("tools", "tool_allowlist: [search]\n"),
    ];
    let usable = WALLS.iter().filter(|(provider, _)| wall(&doctor, provider)["usable"] == true);
    for (provider, isolation) in usable {
        for (name, clause) in clauses {
            let policy = scratch.policy(&format!("isolation: {isolation}\n{clause}"));
            let plan = ["policy", "plan", &policy, "--provider", provider, "--json"];
            let (code, plan) = patiently(|| json(stockade(&plan), &[]));
            let control = control_of(wall(&doctor, provider), name);
            let said = ["missing", "not_built_in"].map(|key| &control[key]);
            match said.into_iter().find(|it| !it.is_null()) {
                Some(said) => {
                    let refused = (Some(125), vec![words(said)]);
                    assert_eq!((code, refusals(&plan)), refused, "{provider}: {name}");
                }
                None => assert_eq!(code, Some(0), "{provider}: {name} is enforced: {plan}"),
            }
        }
    }
}

#[test]
fn doctor_prints_the_apparmor_profile_for_its_own_path() {
    let _alone = Host::alone();
    let run = finish(stockade(&["doctor", "--apparmor-profile"]));
    assert_eq!(run.code, Some(0));
    let program = std::fs::canonicalize(binary()).expect("the binary is there");
    let attached = format!("profile stockade \"{}\" ", program.display());
    assert!(run.stdout.contains(&attached), "{}", run.stdout);
    assert!(run.stdout.lines().any(|line| line.trim() == "userns,"), "{}", run.stdout);
}

#[test]
fn json_is_one_object_with_answer_walls_and_machine() {
    let _alone = Host::alone();
    let (_, doctor) = doctor_here();
    let keys: Vec<&String> = doctor.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["can_run", "walls", "machine"]);
    let host = &doctor["machine"]["host"];
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("/proc is there");
    assert_eq!(host["kernel"], release.trim());
    let most = std::fs::read_to_string("/proc/sys/user/max_user_namespaces").expect("it is there");
    let said = host["knobs"]["max_namespaces"]["user.max_user_namespaces"].as_u64();
    assert_eq!(said.map(|most| most.to_string()).as_deref(), Some(most.trim()));
    let kvm = doctor["machine"]["kvm"]["status"].as_str().expect("a word");
    let is_there = std::path::Path::new("/dev/kvm").exists();
    assert_eq!(kvm == "missing", !is_there, "{doctor}");
    if kvm == "failed" {
        assert!(!doctor["machine"]["kvm"]["step"].as_str().unwrap_or_default().is_empty());
    }
}
