//! `stockade init`: a policy for this directory.

use std::process::Command;

use serde_json::Value;

use crate::support::{Run, Scratch, stockade};

fn init(scratch: &Scratch, args: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stockade"));
    command.arg("init").args(args).current_dir(scratch.path());
    stockade_testing::finish_with(command, b"")
}

#[test]
fn init_without_a_terminal_writes_the_defaults_and_prints_the_command() {
    let scratch = Scratch::new();
    let run = init(&scratch, &[]);
    assert_eq!((run.code, run.text()), (0, "stockade run --policy stockade.yaml -- COMMAND\n"));
    let file = scratch.path().join("stockade.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("mode: overlay") && text.contains("network_allowlist: []"), "{text}");
    let checked = stockade(&["policy", "check", file.to_str().unwrap()]);
    assert_eq!(checked.code, 0, "{}", checked.stderr);
    let again = init(&scratch, &[]);
    assert_eq!(again.code, 125, "{}", again.stdout);
    assert!(again.stderr.contains("--force"), "{}", again.stderr);
    assert_eq!(init(&scratch, &["--force"]).code, 0);
}

#[test]
fn three_questions_are_asked_on_a_terminal() {
    let scratch = Scratch::new();
    let mut command = Command::new("python3");
    command.args(["-c", include_str!("answers.py"), env!("CARGO_BIN_EXE_stockade")]);
    command.args(["read", "example.org", "1g 0.5 5s"]).current_dir(scratch.path());
    let run = stockade_testing::finish_with(command, b"");
    assert_eq!(run.code, 0, "{run:?}");
    for question in ["1. What may", "2. Which hosts", "3. How much memory"] {
        assert!(run.stdout.contains(question), "{question}: {run:?}");
    }
    let file = scratch.path().join("stockade.yaml");
    let shown = stockade(&["policy", "show", file.to_str().unwrap(), "--json"]);
    let policy: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(policy["filesystem"]["workspace"]["mode"], "read", "{policy}");
    assert!(policy["network_allowlist"].to_string().contains("example.org"), "{policy}");
    assert_eq!(policy["defaults"]["max_memory_mb"], 1024, "{policy}");
}

#[test]
fn every_answer_of_init_can_be_a_flag() {
    let scratch = Scratch::new();
    scratch.file(".env", "KEY=1\n");
    let flags = [
        "--workspace",
        "read",
        "--write",
        "./out:/output",
        "--allow-host",
        "api.example.org:8443",
        "--memory",
        "1g",
        "--cpus",
        "0.5",
        "--timeout",
        "5s",
        "--output",
        "p.yaml",
        "--json",
    ];
    let run = init(&scratch, &flags);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(report["command"], "stockade run --policy p.yaml -- COMMAND");
    let file = scratch.path().join("p.yaml");
    let shown = stockade(&["policy", "show", file.to_str().unwrap(), "--json"]);
    let policy: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(policy["defaults"]["max_memory_mb"], 1024, "{policy}");
    assert_eq!(policy["defaults"]["max_cpu"], 0.5, "{policy}");
    assert_eq!(policy["defaults"]["timeout_seconds"], 5, "{policy}");
    assert_eq!(policy["filesystem"]["workspace"]["mode"], "read", "{policy}");
    assert_eq!(policy["filesystem"]["hide"][0], "/workspace/.env", "{policy}");
    assert!(policy["network_allowlist"].to_string().contains("8443"), "{policy}");
}

#[test]
fn invalid_answers_of_init_write_nothing() {
    let scratch = Scratch::new();
    for flags in [
        &["--allow-host", "http://example.org/"][..],
        &["--write", "out"],
        &["--memory", "1"],
        &["--workspace", "all"],
        &["--workspace", "write", "--output", "stockade.yaml"],
    ] {
        let run = init(&scratch, flags);
        assert_eq!(run.code, 125, "{flags:?}: {}", run.stderr);
        assert!(!scratch.path().join("stockade.yaml").exists(), "{flags:?}");
    }
}

#[test]
fn error_about_a_flag_of_init_names_the_flag() {
    let scratch = Scratch::new();
    for (words, message, remedy) in [
        (["--cpus", "0"], "error: --cpus 0: ", "write 0.01"),
        (["--write", "./out:/workspace"], "error: --write ./out:/workspace: ", "--workspace MODE"),
        (["--allow-host", "*.com"], "error: --allow-host *.com: ", "*.example.com"),
    ] {
        let run = init(&scratch, &words);
        assert_eq!(run.code, 125, "{words:?}: {}", run.stdout);
        assert!(run.stderr.starts_with(message) && run.stderr.contains(remedy), "{}", run.stderr);
    }
}
