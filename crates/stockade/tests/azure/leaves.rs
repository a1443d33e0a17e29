//! What leaves this host: to which hosts, and with which secrets in what is written.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use stockade_azure_double::{Double, Fault, Injection, Operation};
use stockade_testing::{Run, Scratch, finish, under_test};

use crate::{can_run, command, report, stockade};

/// The name of the double behind the gate.
const CONFIGURED: &str = "aca.test";
/// A name that no option of the wall has, unless a test sets it.
const OTHER: &str = "other.test";

/// What a client did behind the gate, by the gate's record.
struct Recorded {
    run: Run,
    allowed: BTreeSet<String>,
    denied: BTreeSet<String>,
}

/// Runs `stockade run --provider aca` behind the native wall, which lets it reach only some hosts.
/// Both names lead to the double; `login` is the host of its token service.
fn behind_the_gate(double: &Double, login: &str, reachable: &[&str]) -> Recorded {
    let state = Scratch::new();
    let port = double.port();
    let hosts = format!("127.0.0.1 localhost {CONFIGURED} {OTHER}\n");
    state.file("hosts", &hosts);
    let mut script = String::from("export XDG_STATE_HOME=/tmp/state HOME=/tmp\n");
    for (name, value) in double.variables() {
        let value = match name.as_str() {
            "AZURE_AUTHORITY_HOST" => format!("https://{login}:{port}"),
            "SSL_CERT_FILE" => "/data/ca.pem".to_owned(),
            _ => value.replace(&double.endpoint(), &format!("https://{CONFIGURED}:{port}")),
        };
        script.push_str(&format!("export {name}='{value}'\n"));
    }
    script.push_str("exec /data/stockade run --provider aca -- echo remote\n");
    state.file("client.sh", &script);
    let mount = |host: &Path, guest: &str| format!("--mount={}:/data/{guest}", host.display());
    let binary = under_test(env!("CARGO_BIN_EXE_stockade"));
    let records = state.path().join("records");
    // The names are only in a mount namespace of this run; the gate reads them at its start.
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c"]);
    command.arg("mount --bind \"$1\" /etc/hosts && shift && exec \"$@\"");
    command.arg("sh").arg(state.path().join("hosts")).arg(&binary);
    command.args(["--json", "run", "--provider", "native", "--timeout", "60s"]);
    command.arg(format!("--allow-host=127.0.0.1:{port}"));
    command.args(reachable.iter().map(|host| format!("--allow-host={host}:{port}")));
    command.arg(mount(&binary, "stockade"));
    command.arg(mount(double.certificates(), "ca.pem"));
    command.arg(mount(&state.path().join("client.sh"), "client.sh"));
    command.arg(format!("--record={}", records.display()));
    let run = finish(command.args(["--", "sh", "/data/client.sh"]));
    let record = report(&run)["record"].as_str().map(fs::read_to_string);
    let record = record.unwrap_or_else(|| panic!("{run:?}"));
    let record = record.expect("the record can be read");
    let (mut allowed, mut denied) = (BTreeSet::new(), BTreeSet::new());
    for line in record.lines() {
        let event: Value = serde_json::from_str(line).expect("a line is an event");
        if event["kind"] == "egress" {
            let host = event["body"]["host"].as_str().unwrap_or_else(|| panic!("{line}"));
            let list = if event["body"]["denial"].is_null() { &mut allowed } else { &mut denied };
            list.insert(host.to_owned());
        }
    }
    Recorded { run, allowed, denied }
}

fn names(hosts: &[&str]) -> BTreeSet<String> {
    hosts.iter().map(|host| (*host).to_owned()).collect()
}

#[test]
fn gate_around_the_client_sees_no_host_but_the_configured_one() {
    if !can_run() {
        return;
    }
    let double = Double::start().unwrap();
    let seen = behind_the_gate(&double, CONFIGURED, &[CONFIGURED]);
    assert_eq!(report(&seen.run)["stdout"], "remote\n", "{:?}", seen.run);
    assert_eq!((seen.allowed, seen.denied), (names(&[CONFIGURED]), names(&[])));
    let own = format!("{CONFIGURED}:{}", double.port());
    assert!(double.log().iter().all(|it| it.host == own), "{:?}", double.log());
    assert_eq!((double.created(), double.sandboxes().len()), (1, 0));
    // The record names another host when the client has a reason to ask for it.
    let refused = behind_the_gate(&double, OTHER, &[CONFIGURED]);
    assert_eq!(report(&refused.run)["exit_code"], 125, "{:?}", refused.run);
    assert!(refused.denied.contains(OTHER), "{:?}", refused.denied);
    assert_eq!(double.created(), 1);
    let both = behind_the_gate(&double, OTHER, &[CONFIGURED, OTHER]);
    assert_eq!(report(&both.run)["stdout"], "remote\n", "{:?}", both.run);
    assert_eq!((both.allowed, both.denied), (names(&[CONFIGURED, OTHER]), names(&[])));
}

/// The first secret in bytes.
fn secret_in<'s>(bytes: &[u8], secrets: &'s [String]) -> Option<&'s String> {
    secrets.iter().find(|it| bytes.windows(it.len()).any(|part| part == it.as_bytes()))
}

/// Every file below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("the directory can be listed") {
        let path = entry.expect("the directory can be listed").path();
        let kind = fs::symlink_metadata(&path).expect("the file is there").file_type();
        if kind.is_dir() {
            found.extend(files(&path));
        } else if kind.is_file() {
            found.push(path);
        }
    }
    found
}

#[test]
fn no_token_and_no_secret_is_in_a_record_in_messages_or_in_json() {
    if !can_run() {
        return;
    }
    let (double, state) = (Double::start().unwrap(), Scratch::new());
    let aca = ["--json", "run", "--provider", "aca"];
    let run = |more: &[&str]| stockade(&double, &state, &[&aca[..], more].concat());
    let done = run(&["--allow-host", "packages.example.net", "--", "echo", "done"]);
    assert_eq!(done.code, 0, "{done:?}");
    let mut runs = vec![done];
    for words in [
        &["create", "--provider", "aca", "--name", "managed"][..],
        &["--json", "exec", "managed", "--", "true"],
        &["--json", "rm", "managed"],
        &["--json", "doctor", "--provider", "aca"],
        &["--json", "prune", "--force"],
    ] {
        runs.push(stockade(&double, &state, words));
        assert_eq!(runs.last().unwrap().code, 0, "{words:?}: {:?}", runs.last());
    }
    runs.push(run(&["--aca-sandbox-group", "missing", "--", "true"]));
    let wrong = "wrong-and-still-secret";
    // The double's token service repeats in its error what was sent to it.
    let mut refused = command(&double, &state, &[&aca[..], &["--", "true"]].concat());
    runs.push(finish(refused.env("AZURE_CLIENT_SECRET", wrong)));
    assert!(runs.iter().rev().take(2).all(|it| it.code == 125), "{runs:?}");
    let mut secrets = double.secrets();
    assert!(secrets.len() > 5, "tokens were issued: {secrets:?}");
    secrets.push(wrong.to_owned());
    for (operation, fault) in [
        (Operation::Token, Fault::Status(401, None)),
        (Operation::Token, Fault::Malformed),
        (Operation::Create, Fault::Status(401, None)),
        (Operation::Create, Fault::Malformed),
        (Operation::Execute, Fault::Status(409, None)),
        (Operation::Decisions, Fault::Malformed),
    ] {
        let double = Double::start().unwrap();
        double.inject(Injection::of(operation, fault, 100));
        let failed = stockade(&double, &state, &[&aca[..], &["--", "true"]].concat());
        assert_ne!(failed.code, 0, "{failed:?}");
        runs.push(failed);
        secrets.extend(double.secrets());
    }
    for run in &runs {
        for text in [&run.stdout, &run.stderr] {
            assert_eq!(secret_in(text.as_bytes(), &secrets), None, "{text}");
        }
    }
    let written = files(state.path());
    let is_record = |it: &&PathBuf| it.extension().is_some_and(|end| end == "jsonl");
    assert!(written.iter().filter(is_record).count() >= 3, "{written:?}");
    for file in &written {
        let content = fs::read(file).unwrap();
        assert_eq!(secret_in(&content, &secrets), None, "{}", file.display());
    }
    // The search finds a secret that a program prints itself.
    let shown = run(&["--", "echo", &secrets[0]]);
    assert_eq!(secret_in(shown.stdout.as_bytes(), &secrets), Some(&secrets[0]));
}
