//! Environment variables inside a sandbox.

use std::process::Command;

use crate::support::{binary, command, finish, outside, stockade, walls_can_be_built};
use stockade_testing::Scratch;

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
    let known = ["HOME", "LANG", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "PATH", "TMPDIR", "USER"];
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

#[test]
fn credential_passes_by_its_name_and_the_record_has_the_name_only() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("keys.env", "PLAIN=1\nOPENAI_API_KEY=\"from-file\"\n");
    let records = scratch.path().join("records").to_str().unwrap().to_owned();
    let print = "import os; print(os.environ['OPENAI_API_KEY'], os.environ['PLAIN'])";
    let program = ["--", "python3", "-c", print];
    let with_file = ["--env-file", file.as_str()];
    let run = stockade(&[&with_file[..], &program].concat());
    assert!(run.code == 125 && run.stderr.contains("--env-secret OPENAI_API_KEY"), "{run:?}");
    let named = ["--env-secret", "OPENAI_API_KEY", "--record", records.as_str()];
    let run = stockade(&[&with_file[..], &named, &program].concat());
    assert_eq!(run.text(), "from-file 1\n");
    let record = std::fs::read_dir(&records).unwrap().next().unwrap().unwrap();
    let record = std::fs::read_to_string(record.path()).unwrap();
    assert!(record.contains("OPENAI_API_KEY") && !record.contains("from-file"), "{record}");
}

#[test]
fn program_starts_in_the_named_directory() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path().join("sub")).unwrap();
    let workspace = scratch.path().to_str().unwrap();
    let starts = |directory: &str| {
        stockade(&["--workspace", workspace, "--workdir", directory, "--", "pwd"])
    };
    assert_eq!(starts("/tmp").text(), "/tmp\n");
    assert_eq!(starts("sub").text(), "/workspace/sub\n");
    let run = starts("/nowhere");
    assert_eq!(run.code, 127, "{run:?}");
    assert!(run.stderr.contains("--workdir /nowhere"), "{run:?}");
}

#[test]
fn nproc_shows_the_cpu_limit() {
    if !walls_can_be_built() {
        return;
    }
    assert_eq!(stockade(&["--cpus", "1", "--", "nproc"]).text(), "1\n");
    assert_eq!(stockade(&["--cpus", "0.5", "--", "nproc"]).text(), "1\n");
    assert_eq!(
        stockade(&["--cpus", "0.5", "--env", "OMP_NUM_THREADS=3", "--", "nproc"]).text(),
        "3\n"
    );
}

#[test]
fn processors_of_python_follow_the_limit_and_the_affinity_is_the_callers() {
    if !walls_can_be_built() {
        return;
    }
    let script = "import os, sys; print(os.cpu_count(), sorted(os.sched_getaffinity(0)))";
    let ask = ["python3", "-c", script];
    let host = outside(&ask).stdout;
    let (count, affinity) = host.trim_end().split_once(' ').expect("it prints both");
    let inside = |cpus: &str| stockade(&[&["--cpus", cpus, "--"][..], &ask].concat()).stdout;
    assert_eq!(inside("1"), format!("1 {affinity}\n"));
    assert_eq!(inside("0.5"), format!("1 {affinity}\n"));
    if count != "1" {
        assert_eq!(inside("2"), format!("2 {affinity}\n"));
    }
}

#[test]
fn path_that_is_set_is_the_path_of_every_program_inside() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    scratch.directory("bin");
    let tool = scratch.file("bin/own-tool", "#!/bin/sh\necho own\n");
    rustix::fs::chmod(&tool, rustix::fs::Mode::from_raw_mode(0o755)).unwrap();
    let shown = format!("{}:/opt/own", scratch.path().join("bin").display());
    let shell = ["--", "sh", "-c", "echo $PATH; own-tool"];
    let without = stockade(&[&["--mount", &shown][..], &shell].concat());
    assert_ne!(without.code, 0, "{without:?}");
    let path = ["--mount", &shown, "--env", "PATH=/opt/own:/usr/bin:/bin"];
    let with = stockade(&[&path[..], &shell].concat());
    assert_eq!(with.text(), "/opt/own:/usr/bin:/bin\nown\n");
}

#[test]
fn fontconfig_finds_its_configuration() {
    if !walls_can_be_built() {
        return;
    }
    if !std::path::Path::new("/usr/bin/fc-list").exists() {
        return stockade_testing::not_run("fc-list of the package fontconfig is not installed");
    }
    let run = stockade(&["--quiet", "--", "fc-list"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");
}

#[test]
fn certificates_that_a_variable_names_are_visible_to_a_run_with_a_network() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let pem = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
    let file = scratch.file("company.pem", pem);
    let key = scratch.file("key.pem", "-----BEGIN PRIVATE KEY-----\nAA==\n");
    let run = |variable: &str, file: &str, flags: &[&str]| {
        let print = format!("cat ${{{variable}:-/dev/null}}");
        let mut inside = command(&[flags, &["--", "sh", "-c", print.as_str()]].concat());
        inside.env(variable, file);
        finish(inside)
    };
    let network = ["--allow-host", "example.org"];
    for variable in ["SSL_CERT_FILE", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"] {
        assert_eq!(run(variable, &file, &network).text(), pem, "{variable}");
    }
    assert_eq!(run("SSL_CERT_FILE", &file, &[]).text(), "", "a run without a network needs none");
    assert_eq!(run("SSL_CERT_FILE", &key, &network).text(), "", "a key is not shown");
}
