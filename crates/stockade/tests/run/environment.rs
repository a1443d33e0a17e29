//! Environment variables inside a sandbox.

use std::process::Command;

use crate::support::{binary, command, finish, outside, stockade, walls_can_be_built};

#[test]
fn only_listed_variables_are_set_inside() {
    if !walls_can_be_built() {
        return;
    }
    let names = "import os; print(*sorted(os.environ))";
    let mut host = Command::new("python3");
    host.args(["-c", names]).env("PLANTED", "x");
    assert!(finish(host).text().contains("PLANTED"));
    let mut inside = command(&["--", "env"]);
    inside.env("PLANTED", "x").env("AWS_SECRET_ACCESS_KEY", "x");
    let run = finish(inside);
    let mut seen: Vec<&str> =
        run.text().lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    seen.sort_unstable();
    let known = ["HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "USER"];
    assert!(seen.iter().all(|name| known.contains(name)), "{seen:?}");
    assert!(run.text().contains("HOME=/tmp\n"));
}

#[test]
fn variable_is_set_or_passed_through() {
    if !walls_can_be_built() {
        return;
    }
    let words = ["--env", "A=one two=3", "--env", "PASSED", "--env", "EMPTY=", "--"];
    let print = ["sh", "-c", "echo \"$A|$PASSED|${EMPTY-unset}|${OTHER-unset}\""];
    let mut inside = command(&[&words[..], &print].concat());
    inside.env("PASSED", "through").env("OTHER", "x");
    assert_eq!(finish(inside).text(), "one two=3|through||unset\n");
}

#[test]
fn credentials_and_loader_variables_are_refused_with_a_remedy() {
    if !walls_can_be_built() {
        return;
    }
    let taken = outside(&["env", "GITHUB_TOKEN=canary", "sh", "-c", "echo $GITHUB_TOKEN"]);
    assert_eq!(taken.text(), "canary\n");
    for (said, remedy) in [
        ("GITHUB_TOKEN=canary", "secrets"),
        ("GITHUB_TOKEN", "secrets"),
        ("DB_PASSWORD=canary", "secrets"),
        ("LD_PRELOAD=/tmp/x.so", "  = "),
        ("PYTHONPATH=/tmp", "  = "),
        ("NODE_OPTIONS=--require=/tmp/x", "  = "),
        ("UNSET_HERE", "--env UNSET_HERE=VALUE"),
    ] {
        let mut refused = Command::new(binary());
        refused.args(["run", "--env", said, "--", "env"]).env("GITHUB_TOKEN", "canary");
        let run = finish(refused);
        assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{said}");
        assert!(run.stderr.contains(remedy), "{said}: {}", run.stderr);
        assert!(!run.stderr.contains("canary"), "{said}: {}", run.stderr);
    }
}

#[test]
fn value_over_the_size_limit_is_refused() {
    if !walls_can_be_built() {
        return;
    }
    let long = format!("A={}", "x".repeat(32 * 1024));
    let run = stockade(&["--env", &long, "--", "sh", "-c", "echo ${#A}"]);
    assert_eq!(run.text(), "32768\n");
    let run = stockade(&["--env", &format!("{long}x"), "--", "true"]);
    assert_eq!(run.code, 125);
    assert!(run.stderr.contains("pass large values as a file"), "{}", run.stderr);
}

#[test]
fn program_has_the_cpu_affinity_of_the_caller() {
    if !walls_can_be_built() {
        return;
    }
    let asked = ["grep", "Cpus_allowed_list", "/proc/self/status"];
    let all = outside(&asked).stdout;
    let last = all.trim_end().rsplit(['\t', ',', '-']).next().expect("there is a processor");
    let folder = tempfile::tempdir().unwrap();
    let shown = format!("{}:/data", folder.path().display());
    for processors in [None, Some(last)] {
        let limited = |command: Command| match processors {
            None => command,
            Some(list) => {
                let mut limited = Command::new("taskset");
                limited.args(["-c", list]).arg(command.get_program()).args(command.get_args());
                limited
            }
        };
        let mut plain = Command::new(asked[0]);
        plain.args(&asked[1..]);
        let expected = finish(limited(plain)).stdout;
        for words in [&["--"][..], &["--mount", &shown, "--"]] {
            let words = [words, &asked].concat();
            let ran = finish(limited(command(&words)));
            assert_eq!(ran.stdout, expected, "{words:?} {processors:?} {}", ran.stderr);
        }
    }
}
