//! The host at hand.

use serde_json::Value;

use crate::leftovers::{Host, binary, walls_can_be_built};
use crate::refusing::finish;
use crate::support::{control, json, native, refusals, stockade, words};

#[test]
fn short_answer_is_first_and_all_is_readable_without_colour() {
    let _alone = Host::alone();
    let run = finish(stockade(&["doctor"]));
    let first = run.stdout.lines().next().unwrap_or_default();
    assert!(first.starts_with("You can run: "), "{}", run.stdout);
    assert_eq!((run.stderr.as_str(), run.stdout.contains('\u{1b}')), ("", false));
    let walls = ["native", "wasm", "docker", "kubernetes", "gvisor", "hyperlight", "qemu", "aca"];
    let machine = ["kernel ", "Landlock ", "seccomp ", "container ", "newuidmap ", "/dev/kvm "];
    for word in walls.iter().chain(&machine).chain(&["user.max_user_namespaces ", "python "]) {
        let named = run.stdout.lines().any(|line| line.trim_start().starts_with(word));
        assert!(named, "{word} is not named: {}", run.stdout);
    }
}

#[test]
fn what_doctor_says_is_enforceable_is_what_holds_a_run() {
    let _alone = Host::alone();
    if !walls_can_be_built() {
        return;
    }
    let (code, doctor) = json(stockade(&["doctor", "--json"]), &[]);
    assert_eq!((code, native(&doctor)["usable"].as_bool()), (Some(0), Some(true)));
    assert_eq!(doctor["can_run"][0]["provider"], "native");
    let (code, report) =
        json(stockade(&["run", "--json", "--provider", "native", "--", "true"]), &[]);
    assert_eq!(code, Some(0), "{report}");
    let held = report["isolation"]["controls"].as_array().expect("controls are a list");
    assert!(held.len() > 15, "{report}");
    for held in held {
        let name = held["control"].as_str().expect("controls have names");
        let said = &control(&doctor, name)["enforced"];
        let both = |value: &Value| (value["mechanism"].clone(), value["precision"].clone());
        assert_eq!(both(said), both(held), "{name}");
    }
}

#[test]
fn what_doctor_says_is_not_enforceable_is_refused_with_its_words() {
    let _alone = Host::alone();
    if !walls_can_be_built() {
        return;
    }
    let scratch = crate::support::Scratch::new("refused");
    let (_, doctor) = json(stockade(&["doctor", "--json"]), &[]);
    let clauses = [
        ("network_requests", "network_allowlist: [{host: example.org, methods: [GET]}]\n"),
        ("tools", "tool_allowlist: [search]\n"),
    ];
    let refused =
        clauses.iter().filter(|(name, _)| !control(&doctor, name)["not_built_in"].is_null());
    for (name, clause) in refused {
        let policy = scratch.policy(clause);
        let plan = ["policy", "plan", &policy, "--provider", "native", "--json"];
        let (code, plan) = json(stockade(&plan), &[]);
        let said = vec![words(&control(&doctor, name)["not_built_in"])];
        assert_eq!((code, refusals(&plan)), (Some(125), said), "{name}");
    }
}

#[test]
fn apparmor_profile_is_for_this_program() {
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
    let (_, doctor) = json(stockade(&["doctor", "--json"]), &[]);
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
