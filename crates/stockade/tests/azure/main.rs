//! The managed wall, end to end: the built binary against the double of Azure. See docs/testing.md.

mod leaves;

use std::process::Command;

use serde_json::{Value, json};
use stockade_azure_double::{Double, Fault, Injection, Logged, Operation};
use stockade_testing::{Run, Scratch, examples, finish, skipped, under_test};

/// Whether this host can run the machines of the double. If it cannot, prints why.
fn can_run() -> bool {
    match stockade_azure_double::why_not() {
        None => true,
        Some(reason) => {
            skipped("azure-double", &reason);
            false
        }
    }
}

/// The binary with the variables of a double, and records of its own.
fn command(double: &Double, state: &Scratch, words: &[&str]) -> Command {
    let mut command = Command::new(under_test(env!("CARGO_BIN_EXE_stockade")));
    command
        .args(words)
        .env("XDG_STATE_HOME", state.path().join("records"))
        .current_dir(state.path());
    command.env("STOCKADE_STATE", state.path().join("sessions"));
    command.env("STOCKADE_STORE", state.path().join("store"));
    for (name, value) in double.variables() {
        command.env(name, value);
    }
    command
}

/// How it ended.
fn stockade(double: &Double, state: &Scratch, words: &[&str]) -> Run {
    finish(&mut command(double, state, words))
}

fn report(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"))
}

#[test]
fn run_uses_the_managed_wall_and_leaves_nothing_there() {
    if !can_run() {
        return;
    }
    let (double, state) = (Double::start().unwrap(), Scratch::new());
    let script = examples().join("hello.py");
    let words = ["--json", "run", "--provider", "aca", script.to_str().unwrap()];
    let run = stockade(&double, &state, &words);
    assert_eq!(run.code, 0, "{run:?}");
    let report = report(&run);
    assert_eq!(report["outcome"], "exited");
    assert_eq!(report["isolation"]["provider"], "aca");
    let controls = report["isolation"]["controls"].as_array().unwrap();
    let of = |name: &str| controls.iter().find(|it| it["control"] == name).unwrap();
    assert_eq!(of("network_deny")["precision"], "unverified");
    assert_eq!(of("max_pids")["precision"], "exact");
    assert_eq!((double.created(), double.sandboxes().len()), (1, 0));
}

#[test]
fn timeout_exit_code_and_output_of_a_managed_program_are_those_of_every_wall() {
    if !can_run() {
        return;
    }
    let (double, state) = (Double::start().unwrap(), Scratch::new());
    let run = stockade(
        &double,
        &state,
        &["run", "--provider", "aca", "--", "sh", "-c", "echo out; exit 7"],
    );
    assert_eq!((run.code, run.stdout.as_str()), (7, "out\n"), "{run:?}");
    let words = ["run", "--provider", "aca", "--timeout", "1s", "--", "sleep", "60"];
    assert_eq!(stockade(&double, &state, &words).code, 124);
    let words = ["--json", "run", "--provider", "aca", "--max-output", "1k", "--", "seq", "1000"];
    let report = report(&stockade(&double, &state, &words));
    assert_eq!(report["output"]["stdout"]["kept_bytes"], 1024);
    assert_eq!(report["output"]["stdout"]["dropped_bytes"], 2869);
    assert_eq!(double.sandboxes(), [""; 0]);
}

#[test]
fn egress_decisions_are_in_the_record_with_host_method_and_path() {
    if !can_run() {
        return;
    }
    let (double, state) = (Double::start().unwrap(), Scratch::new());
    state.file(
        "get.py",
        "from urllib.request import urlopen\n\
        print(urlopen('https://packages.example.net/simple/', timeout=10).status)\n\
        try: urlopen('https://evil.example/')\nexcept Exception as error: print(error)\n",
    );
    let words =
        ["--json", "run", "--provider", "aca", "--allow-host", "packages.example.net", "get.py"];
    let report = report(&stockade(&double, &state, &words));
    assert_eq!(report["outcome"], "exited", "{report}");
    let denials = report["denials"].as_array().unwrap();
    assert_eq!(denials[0]["target"], "evil.example:443", "{denials:?}");
    let record = std::fs::read_to_string(report["record"].as_str().unwrap()).unwrap();
    let events: Vec<Value> =
        record.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let egress: Vec<&Value> =
        events.iter().filter(|it| it.to_string().contains("\"via\"")).collect();
    let text = egress.iter().map(|it| it.to_string()).collect::<String>();
    assert_eq!(egress.len(), 2, "{text}");
    for part in ["packages.example.net", "/simple/", "GET", "evil.example"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(stockade(&double, &state, &["audit", "verify"]).code, 0);
}

#[test]
fn session_of_the_managed_wall_keeps_its_files_and_is_deleted_at_its_end() {
    if !can_run() {
        return;
    }
    let (double, state) = (Double::start().unwrap(), Scratch::new());
    let run = stockade(&double, &state, &["create", "--provider", "aca", "--name", "managed"]);
    assert_eq!(run.code, 0, "{run:?}");
    let run = stockade(&double, &state, &["exec", "managed", "--", "sh", "-c", "echo kept > f"]);
    assert_eq!(run.code, 0, "{run:?}");
    let run = stockade(&double, &state, &["exec", "managed", "--", "cat", "f"]);
    assert_eq!(run.stdout, "kept\n", "{run:?}");
    state.file("sent", "sent");
    assert_eq!(stockade(&double, &state, &["cp", "sent", "managed:/workspace/sent"]).code, 0);
    let run = stockade(&double, &state, &["exec", "managed", "--", "cat", "sent"]);
    assert_eq!(run.stdout, "sent", "{run:?}");
    assert_eq!(double.sandboxes().len(), 1);
    assert_eq!(stockade(&double, &state, &["rm", "managed"]).code, 0);
    assert_eq!(double.sandboxes(), [""; 0]);
}

#[test]
fn contexts_of_a_managed_session_are_refused_by_name_and_nothing_runs() {
    if !can_run() {
        return;
    }
    let (double, state) = (Double::start().unwrap(), Scratch::new());
    let run = stockade(&double, &state, &["create", "--provider", "aca", "--name", "managed"]);
    assert_eq!(run.code, 0, "{run:?}");
    let before = double.log().len();
    let code = state.file("code.py", "1 + 1");
    for words in
        [&["context", "create", "managed"][..], &["code", "--context", "main", "managed", &code]]
    {
        let run = stockade(&double, &state, words);
        assert_eq!(run.code, 125, "{run:?}");
        assert!(run.stderr.contains("the aca wall has no contexts"), "{run:?}");
        assert!(run.stderr.contains("--provider native or docker"), "{run:?}");
    }
    let asked = double.log().split_off(before);
    assert!(!format!("{asked:?}").contains("executeShellCommand"), "{asked:?}");
    assert_eq!(stockade(&double, &state, &["context", "ls", "-q", "managed"]).stdout, "");
    assert_eq!(stockade(&double, &state, &["rm", "managed"]).code, 0);
}

#[test]
fn checkpoints_of_a_managed_session_are_refused_by_name_and_nothing_is_made() {
    if !can_run() {
        return;
    }
    let (double, state) = (Double::start().unwrap(), Scratch::new());
    let run = |words: &[&str]| stockade(&double, &state, words);
    for (provider, name) in [("aca", "managed"), ("native", "local")] {
        let made = run(&["create", "--provider", provider, "--name", name]);
        assert_eq!(made.code, 0, "{made:?}");
        let kept = run(&["exec", name, "--", "sh", "-c", "echo kept > f"]);
        assert_eq!(kept.code, 0, "{kept:?}");
    }
    // Behind another wall each of them works, with the same policy.
    assert_eq!(run(&["checkpoint", "local", "good"]).code, 0);
    let same = run(&["restore", "local", "good"]);
    assert_eq!(same.code, 0, "{same:?}");
    let sandboxes = double.sandboxes();
    let requests = |kind: &str| double.log().iter().filter(|it| it.path.ends_with(kind)).count();
    for words in [
        &["checkpoint", "managed", "good"][..],
        &["restore", "managed", "local/good"],
        &["fork", "managed"],
        &["diff", "managed"],
        &["apply", "managed", "--to", "target"],
        &["export", "managed", "file.tar.zst"],
    ] {
        let refused = run(words);
        assert_eq!(refused.code, 125, "{words:?}: {refused:?}");
        for part in ["Azure only snapshots a whole sandbox", "another wall, such as native"] {
            assert!(refused.stderr.contains(part), "{words:?}: {}", refused.stderr);
        }
    }
    assert_eq!(run(&["checkpoints", "-q"]).stdout, "local/good\n");
    assert_eq!((requests("/snapshot"), requests("/commit"), double.created()), (0, 0, 1));
    assert_eq!(double.sandboxes(), sandboxes);
    let goes_on = run(&["exec", "managed", "--", "cat", "f"]);
    assert_eq!(goes_on.stdout, "kept\n", "{goes_on:?}");
    // A fresh sandbox needs no checkpoint.
    let discarded = run(&["discard", "managed"]);
    assert_eq!(discarded.code, 0, "{discarded:?}");
    assert_eq!(run(&["exec", "managed", "--", "ls"]).stdout, "");
    assert_eq!((double.created(), double.sandboxes().len()), (2, 1));
    for name in ["managed", "local"] {
        assert_eq!(run(&["rm", "--force", name]).code, 0);
    }
    assert_eq!(double.sandboxes(), [""; 0]);
}

#[test]
fn tools_of_a_file_are_called_from_a_managed_sandbox() {
    if !can_run() {
        return;
    }
    let (double, state) = (Double::start().unwrap(), Scratch::new());
    state.file(
        "tools.yaml",
        "tools:\n  - name: double\n    description: Doubles a number.\n    \
        command: [sh, -c, 'read -r line; echo 42']\n    \
        input_schema: {type: object, properties: {number: {type: integer}}, required: [number]}\n",
    );
    state.file("call.py", "print(call_tool('double', number=21))\n");
    let words = ["run", "--provider", "aca", "--tools", "tools.yaml", "call.py"];
    let run = stockade(&double, &state, &words);
    assert_eq!((run.code, run.stdout.as_str()), (0, "42\n"), "{run:?}");
}

#[test]
fn managed_wall_without_options_says_what_to_name() {
    let state = Scratch::new();
    let mut command = Command::new(under_test(env!("CARGO_BIN_EXE_stockade")));
    command.args(["run", "--provider", "aca", "--", "true"]).env_clear();
    let run = finish(command.env("PATH", "/usr/bin:/bin").env("HOME", state.path()));
    assert_eq!(run.code, 125, "{run:?}");
    assert!(run.stderr.contains("STOCKADE_ACA_RESOURCE_GROUP"), "{}", run.stderr);
    let mut command = Command::new(under_test(env!("CARGO_BIN_EXE_stockade")));
    command.args(["run", "--provider", "native", "--aca-region", "x", "--", "true"]);
    let run = finish(&mut command);
    assert!(run.stderr.contains("belong to --provider aca"), "{}", run.stderr);
}

#[test]
fn doctor_and_plan_describe_the_managed_wall_and_the_self_test_runs() {
    if !can_run() {
        return;
    }
    let (double, state) = (Double::start().unwrap(), Scratch::new());
    // Without the wall's name, and for a plan, one request asks whether the group can be used.
    stockade(&double, &state, &["doctor"]);
    state.file("empty.yaml", "{}\n");
    let planned = stockade(&double, &state, &["policy", "plan", "--provider", "aca", "empty.yaml"]);
    assert!(planned.stdout.contains("unverif."), "{planned:?}");
    let changes = |it: &&Logged| it.method != "GET" && !it.path.ends_with("/token");
    assert_eq!(double.log().iter().filter(changes).count(), 0, "{:?}", double.log());
    let run = stockade(&double, &state, &["doctor", "--provider", "aca"]);
    assert_eq!(run.code, 0, "{run:?}");
    for part in ["create a sandbox", "execute a program", "delete the sandbox"] {
        assert!(run.stdout.contains(part), "{}", run.stdout);
    }
    assert_eq!((double.created(), double.sandboxes().len()), (1, 0));
    state.file("p.yaml", "network_blocklist: [evil.example]\n");
    let run = stockade(&double, &state, &["policy", "plan", "--provider", "aca", "p.yaml"]);
    assert!(run.stdout.contains("unverif."), "{}", run.stdout);
    assert!(run.stdout.contains("network_block"), "{}", run.stdout);
    double.inject(Injection::of(Operation::Execute, Fault::Status(500, None), 1));
    let run = stockade(&double, &state, &["--json", "doctor", "--provider", "aca"]);
    assert_eq!(run.code, 125, "{run:?}");
    assert_eq!(report(&run)["self_test"]["passed"], false);
    assert_eq!(double.sandboxes(), [""; 0]);
}

#[test]
fn prune_deletes_the_managed_sandboxes_of_dead_processes() {
    if !can_run() {
        return;
    }
    let (double, state) = (Double::start().unwrap(), Scratch::new());
    // A killed run leaves its sandbox.
    let mut command = Command::new(under_test(env!("CARGO_BIN_EXE_stockade")));
    command.args(["run", "--provider", "aca", "--no-input", "--", "sleep", "600"]);
    command.env("XDG_STATE_HOME", state.path()).envs(double.variables());
    let mut child = command.spawn().unwrap();
    stockade_testing::wait_for("a sandbox with a program", || {
        let log = double.log();
        let runs = |command: &str| command.contains(" run ");
        log.iter().any(|it| it.body["command"].as_str().is_some_and(runs)).then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(double.sandboxes().len(), 1);
    let foreign = double.plant(&json!({ "agent_id": "someone" })).unwrap();
    let run = stockade(&double, &state, &["--json", "prune", "--force"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(double.sandboxes(), [foreign]);
    assert!(report(&run)["removed"].as_array().is_some_and(|it| it.len() == 1), "{run:?}");
}
