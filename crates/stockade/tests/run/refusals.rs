//! Invalid input gives a one-line error, a remedy and exit code 125.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{
    Run, binary, finish, is_root, not_run, outside, stockade, walls_can_be_built,
};
use stockade_testing::{Scratch, set_mode};

/// Asserts that a run printed only a one-line error and a remedy.
fn is_refusal(run: &Run, message: &str, remedy: &str) {
    assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{}", run.stderr);
    let (first, rest) = run.stderr.split_once('\n').expect("a message is a line");
    assert!(first.starts_with("error: ") && first.contains(message), "{}", run.stderr);
    assert!(rest.contains(remedy), "{}", run.stderr);
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
}

#[test]
fn invalid_scripts_sizes_and_walls_are_refused() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let folder = scratch.directory("folder.py");
    is_refusal(&stockade(&["/nonexistent.py"]), "/nonexistent.py", "check the path");
    is_refusal(&stockade(&[&folder]), "is a directory", "name a file in it");
    is_refusal(&stockade(&["--memory", "lots", "--", "true"]), "--memory lots", "--memory 512m");
    is_refusal(&stockade(&["--provider", "magic", "--", "true"]), "magic", "native");
}

#[test]
fn unreadable_or_invalid_policy_runs_nothing() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let wrong = scratch.file("wrong.yaml", "limits: { max_pid: 3 }\n");
    let run = stockade(&["--policy", &wrong, "--", "true"]);
    assert_eq!((run.code, run.stdout.as_str()), (125, ""));
    assert!(run.stderr.contains("max_pids"), "{}", run.stderr);
    let run = stockade(&["--policy", scratch.text(), "--", "true"]);
    is_refusal(&run, scratch.text(), "  = ");
    if is_root() {
        return not_run("root can read every file, so nothing is refused to it");
    }
    let secret = scratch.file("secret.yaml", "{}\n");
    let script = scratch.file("secret.py", "print(1)\n");
    set_mode(Path::new(&secret), 0);
    set_mode(Path::new(&script), 0);
    is_refusal(&stockade(&["--policy", &secret, "--", "true"]), "secret.yaml", "  = ");
    is_refusal(&stockade(&[&script]), "secret.py", "  = ");
    // An unreadable file can be mounted, but cannot be read inside either.
    let run = stockade(&["--mount", &format!("{secret}:/x"), "--", "cat", "/x"]);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{}", run.stderr);
}

#[test]
fn clause_that_this_wall_cannot_enforce_is_refused_and_named() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let policy = scratch.file("policy.yaml", "isolation: vm\n");
    let run = stockade(&["--provider", "native", "--policy", &policy, "--", "echo", "ran"]);
    assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{}", run.stderr);
    assert!(run.stderr.contains("isolation"), "{}", run.stderr);
}

#[test]
fn output_to_a_full_disk_is_an_error() {
    if !walls_can_be_built() {
        return;
    }
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let child = Command::new(binary())
        .args(["run", "--", "echo", "hello"])
        .stdin(Stdio::null())
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("No space left") && said.contains("disk is not full"), "{said}");
}

#[test]
fn too_few_descriptors_give_a_one_line_error() {
    if !walls_can_be_built() {
        return;
    }
    let stockade = binary();
    let words = |count: u32| {
        let script = format!("ulimit -S -n {count}; exec \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).arg(&stockade).args(["run", "--", "echo", "ran"]);
        finish(command)
    };
    // A run needs some number of descriptors; every lower limit must give an error.
    let (mut refused, mut ran) = (0, 0);
    for count in (4..70).step_by(3) {
        let run = words(count);
        if run.code == 0 {
            assert_eq!(run.stdout, "ran\n");
            ran += 1;
            continue;
        }
        refused += 1;
        // With fewer descriptors than the dynamic loader needs, Stockade itself cannot start.
        if run.code == 127 {
            continue;
        }
        is_refusal(&run, "", "  = ");
    }
    assert!(refused > 0 && ran > 0, "{refused} numbers were refused and {ran} were enough");
}

#[test]
fn command_that_is_empty_or_missing_is_refused() {
    if !walls_can_be_built() {
        return;
    }
    is_refusal(&stockade::<&str>(&[]), "nothing to run", "stockade run script.py");
    assert_ne!(stockade(&["--", ""]).code, 0);
    assert_eq!(outside(&["sh", "-c", "echo works"]).text(), "works\n");
}

#[test]
fn isolation_floor_above_the_wall_is_refused_and_a_lower_one_is_met() {
    if !walls_can_be_built() {
        return;
    }
    assert_eq!(stockade(&["--isolation", "process", "--", "echo", "ran"]).text(), "ran\n");
    for floor in ["container", "user-kernel", "vm"] {
        let run = stockade(&["--isolation", floor, "--", "echo", "ran"]);
        is_refusal(&run, "cannot enforce the policy", &format!("with {floor} isolation"));
        assert!(run.stderr.contains(&format!("{floor} or stronger")), "{}", run.stderr);
    }
}

#[test]
fn quiet_prints_only_the_output_of_the_program_and_errors() {
    if !walls_can_be_built() {
        return;
    }
    let line = "echo out; echo err >&2; echo 'No such file: /etc/fstab' >&2; kill -9 $$";
    for words in [
        &["--", "sh", "-c", line][..],
        &["--timeout", "200ms", "--", "sleep", "60"],
        &["--", "no-such-program"],
    ] {
        let said = stockade(words);
        assert!(said.stderr.contains("stockade: "), "{words:?}: {}", said.stderr);
        let quiet = stockade(&[&["--quiet"], words].concat());
        assert!(!quiet.stderr.contains("stockade: "), "{words:?}: {}", quiet.stderr);
        assert_eq!((quiet.code, &quiet.stdout), (said.code, &said.stdout), "{words:?}");
    }
    let run = stockade(&["-q", "--", "sh", "-c", "echo out; echo err >&2; exit 3"]);
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (3, "out\n", "err\n"));
    // Stockade still prints its own errors.
    is_refusal(&stockade(&["--quiet", "/nonexistent.py"]), "/nonexistent.py", "check the path");
}
