//! `stockade run`: errors before any wall is built.

use crate::support::{Run, Scratch, root, stockade, stockade_with_input};

/// Runs a refused command line: expects exit code 125, empty standard output, and an error with
/// this message and remedy.
fn refused(args: &[&str], message: &str, remedy: &str) {
    let mut words = vec!["run"];
    words.extend(args);
    let run = stockade(&words);
    assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{args:?}: {}", run.stderr);
    let (first, rest) = run.stderr.split_once('\n').expect("a message is a line");
    assert!(first.starts_with("error: ") && first.contains(message), "{args:?}: {}", run.stderr);
    assert!(rest.contains(remedy), "{args:?}: {}", run.stderr);
    words.insert(1, "--json");
    let run = stockade(&words);
    let error = &run.json()["error"];
    assert_eq!(run.code, 125, "{args:?}");
    let said = error["message"].as_str().expect("an error has a message");
    assert!(said.contains(message), "{args:?}: {error}");
}

fn denied(run: &Run) -> serde_json::Value {
    assert_eq!(run.code, 126, "{}{}", run.stdout, run.stderr);
    run.json()
}

#[test]
fn invalid_script_is_refused_with_a_remedy() {
    let scratch = Scratch::new();
    let directory = scratch.path().join("folder.py");
    std::fs::create_dir(&directory).unwrap();
    let directory = directory.to_str().unwrap();
    let unknown = scratch.file("notes.txt", "hello");
    let huge = scratch.path().join("huge.py");
    std::fs::File::create(&huge).unwrap().set_len((64 << 20) + 1).unwrap();
    refused(&["/nonexistent.py"], "cannot read the code from /nonexistent.py", "check the path");
    refused(&[directory], "is a directory, not a file", "name a file in it");
    refused(&[&unknown], "says its language", "python, bash, javascript");
    refused(&[huge.to_str().unwrap()], "is larger than", "check that this is the right file");
    refused(&["--language", "cobol", &unknown], "no language is called `cobol`", "python, bash");
    refused(&["-"], "nothing says the language of standard input", "--language");
    refused(
        &["--language", "python", "--", "ls"],
        "--language belongs to a script",
        "leave it out",
    );
    refused(&[], "nothing to run was named", "stockade run script.py");
}

#[test]
fn invalid_amount_error_has_the_flag_and_an_example() {
    let such_as = |flag: &str, value: &str, example: &str| {
        let (message, remedy) = (format!("{flag} {value}: "), format!("such as {flag} {example}"));
        refused(&[flag, value, "--", "ls"], &message, &remedy);
    };
    for value in ["lots", "512", "-1m", "-1", "--cpus"] {
        such_as("--memory", value, "512m");
    }
    such_as("--disk", "-1m", "512m");
    such_as("--max-output", "-1k", "512m");
    such_as("--timeout", "30", "30s");
    such_as("--timeout", "-5s", "30s");
    such_as("--cpus", "x", "0.5");
    such_as("--cpus", "-1", "0.5");
    such_as("--pids", "-1", "64");
    refused(&["--memory", "1m", "--", "ls"], "--memory 1m: ", "4 to");
    refused(&["--memory", "64m", "--disk", "512m", "--", "ls"], "more than --memory 64m", "raise");
}

#[test]
fn missing_walls_mounts_roots_and_policies_are_refused() {
    let scratch = Scratch::new();
    let broken = scratch.file("broken.yaml", "nonsense: 1\n");
    refused(&["--provider", "magic", "--", "ls"], "magic", "native");
    refused(&["--isolation", "magic", "--", "ls"], "magic", "vm");
    refused(&["--mount", "data", "--", "ls"], "--mount data is not HOST:GUEST", "./data:/data");
    refused(&["--mount", "/etc/shadow:/x", "--", "ls"], "--mount /etc/shadow:/x: ", "  = ");
    refused(&["--workspace", ".:never", "--", "ls"], "--workspace .:never", "overlay");
    refused(&["--root", "/nonexistent", "--", "ls"], "--root /nonexistent: ", "image");
    refused(&["--root", "/", "--", "ls"], "--root /: ", "  = ");
    refused(&["--policy", "/nonexistent.yaml", "--", "ls"], "cannot read the policy", "check");
    refused(&["--policy", "-", "-"], "standard input is named more than once", "as files");
    let run = stockade(&["run", "--policy", &broken, "--", "ls"]);
    assert_eq!((run.code, run.stdout.as_str()), (125, ""));
    assert!(run.stderr.contains("a policy has no key `nonsense`"), "{}", run.stderr);
}

#[test]
fn forbidden_variable_is_refused_with_an_alternative() {
    refused(&["--env", "GITHUB_TOKEN=x", "--", "env"], "looks like a credential", "`secrets`");
    refused(&["--env", "GITHUB_TOKEN", "--", "env"], "looks like a credential", "`secrets`");
    refused(&["--env", "LD_PRELOAD=/x.so", "--", "env"], "the loader or interpreter", "remove it");
    refused(&["--env", "PYTHONPATH=/x", "--", "env"], "the loader or interpreter", "remove it");
    refused(&["--env", "DB_PASS=x", "--", "env"], "looks like a credential", "`secrets`");
    refused(&["--env", "PYTHONWARNINGS=x", "--", "env"], "the loader or interpreter", "remove it");
    refused(&["--env", "SURELY_UNSET_HERE", "--", "env"], "is not set here", "=VALUE");
}

#[test]
fn flag_with_a_policy_only_tightens_it() {
    let scratch = Scratch::new();
    let policy = scratch.file("p.yaml", "environment: {LANG: C}\n");
    let with = |flag: &str, value: &str, message: &str, remedy: &str| {
        refused(&["--policy", &policy, flag, value, "--", "ls"], message, remedy);
    };
    with("--timeout", "2m", "more than the 60 seconds that the policy sets", "leave the flag out");
    with("--mount", "a:/a", "--mount would widen the policy", "policy file");
    with("--workspace", ".", "--workspace would widen the policy", "policy file");
    with("--env", "LANG=de", "the policy sets the variable `LANG` itself", "leave it out");
}

/// A value that a shell puts in place of a secret's source, and what must not be printed of it.
const VALUE: &str = "sk-live-Zq8wE3rT5y";
const PART: &str = "Zq8";

#[test]
fn value_in_place_of_a_secrets_source_is_in_no_output() {
    let scratch = Scratch::new();
    let said = format!("KEY={VALUE}@api.example.org");
    let joined = format!("--secret={said}");
    let text = format!("secrets:\n  - {{ name: KEY, from: \"{VALUE}\", hosts: [ a.test ] }}\n");
    let policy = scratch.file("p.yaml", &text);
    let lines = ["run", "--json-lines", "--secret", &said, "--", "true"];
    for words in [
        &["run", "--secret", &said, "--", "true"][..],
        &["run", "--json", "--secret", &said, "--", "true"],
        &lines,
        &["run", "--secret", &said, "ls"],
        &["run", &joined, "ls"],
        &["ls", &joined],
        &["run", "--secret", VALUE, "--", "true"],
        &["run", "--policy", &policy, "--", "true"],
        &["policy", "check", &policy],
        &["policy", "check", "--json", &policy],
        &["policy", "show", &policy],
        &["policy", "show", "--json", &policy],
        &["secret", "set", "session", "KEY", "--from", VALUE],
        &["secret", "set", "session", "KEY", VALUE],
        &["secret", "set", "KEY", VALUE],
    ] {
        let run = stockade(words);
        assert_eq!(run.code, 125, "{words:?}: {} {}", run.stdout, run.stderr);
        for output in [&run.stdout, &run.stderr] {
            assert!(!output.contains(PART), "{words:?}: {output}");
        }
    }
    let run = stockade(&["run", "--secret", &said, "--", "true"]);
    assert!(run.stderr.contains("--secret KEY: `…` does not name the source"), "{}", run.stderr);
    let run = stockade(&["policy", "check", &policy]);
    assert!(run.stderr.contains("from: \"…\", hosts: [ a.test ]"), "{}", run.stderr);
}

#[test]
fn secret_that_the_policy_defines_too_is_refused() {
    let scratch = Scratch::new();
    let secret = "secrets: [ { name: KEY, from: \"env:KEY\", hosts: [ a.test ] } ]\n";
    let variable = "environment: { LEVEL: debug }\n";
    let policy = scratch.file("p.yaml", format!("{secret}{variable}"));
    let with = |said: &str, message: &str, remedy: &str| {
        refused(&["--policy", &policy, "--secret", said, "--", "true"], message, remedy);
    };
    with("KEY=env:OTHER@b.test", "the secret `KEY` is defined twice", "leave the flag out");
    with("LEVEL=env:OTHER@b.test", "the policy sets `LEVEL`", "leave the flag out");
}

#[test]
fn secret_in_a_variable_of_the_sandbox_is_refused() {
    for name in ["PATH", "HOME", "SSL_CERT_FILE"] {
        let said = format!("{name}=env:KEY@a.test");
        let message = format!("`{name}` cannot be a secret: the sandbox sets it");
        refused(&["--secret", &said, "--", "true"], &message, "from which the program reads");
    }
}

#[test]
fn usage_error_of_json_lines_is_a_line_on_standard_output() {
    for (words, message) in [
        (&["--memory", "1"][..], "--memory 1: a size"),
        (&["--timeout", "5"], "--timeout 5: "),
        (&["--bogus"], "has no option --bogus"),
        (&["--learn"], "--learn"),
    ] {
        let mut all = vec!["run", "--json-lines"];
        all.extend(words);
        all.extend(["--", "true"]);
        let run = stockade(&all);
        assert_eq!((run.code, run.stderr.as_str()), (125, ""), "{words:?}");
        assert_eq!(run.stdout.lines().count(), 1, "{words:?}: {}", run.stdout);
        let line = run.json();
        assert_eq!(line["event"], "error", "{words:?}: {line}");
        assert!(line["message"].as_str().unwrap().contains(message), "{words:?}: {line}");
        assert!(line["remedy"].is_string(), "{words:?}: {line}");
    }
    // The option of a program is not one of Stockade.
    let run = stockade(&["run", "--bogus", "--", "true", "--json-lines"]);
    assert_eq!((run.code, run.stdout.as_str()), (125, ""));
}

#[test]
fn remedy_for_flags_names_flags() {
    let said = "SURELY_UNSET=env:SURELY_UNSET@a.test";
    let run = stockade(&["run", "--secret", said, "--", "true"]);
    assert!(run.stderr.contains("or leave the secret out"), "{}", run.stderr);
    let scratch = Scratch::new();
    let file = scratch.file("env", "KEY=value\n");
    refused(
        &[
            "--secret",
            "KEY=env:PATH@a.test",
            "--env-file",
            &file,
            "--env-secret",
            "KEY",
            "--",
            "true",
        ],
        "--env-secret KEY: --secret KEY sets that variable already",
        "leave one of the two out",
    );
}

#[test]
fn denied_program_ends_the_run_before_any_wall_is_built() {
    let scratch = Scratch::new();
    let policy = scratch.file(
        "p.yaml",
        "command_allowlist: [ls]\ndefaults: {action: allow}\nrules:\n  - {name: no-eval, action: \
         deny, condition: {field: code, operator: contains, value: eval}}\n",
    );
    let run = stockade(&["run", "--json", "--policy", &policy, "--", "cat", "/etc/passwd"]);
    let report = denied(&run);
    assert_eq!(report["outcome"], "denied");
    assert_eq!((&report["exit_code"], &report["isolation"]), (&().into(), &().into()));
    assert_eq!(report["denials"][0]["control"], "commands");
    let code = ["run", "--json", "--policy", &policy, "--language", "python", "-"];
    let report = denied(&stockade_with_input(&code, "eval('1')"));
    assert!(report["denials"][0]["why"].as_str().unwrap().contains("no-eval"), "{report}");
    let run = stockade(&["run", "--policy", &policy, "--", "cat"]);
    assert_eq!((run.code, run.stdout.as_str()), (126, ""));
    assert!(run.stderr.contains("add `cat` to command_allowlist"), "{}", run.stderr);
    let run = stockade(&["run", "--quiet", "--policy", &policy, "--", "cat"]);
    assert_eq!((run.code, run.stderr.as_str()), (126, ""));
}

#[test]
fn code_that_is_not_utf8_is_denied_if_rules_examine_it() {
    let scratch = Scratch::new();
    let script = scratch.file("a.py", b"# \xff\n");
    let policy = root().join("examples/policies/research-agent.yaml");
    let run = stockade(&["run", "--json", "--policy", policy.to_str().unwrap(), &script]);
    let report = denied(&run);
    assert!(report["denials"][0]["why"].as_str().unwrap().contains("UTF-8"), "{report}");
}

#[test]
fn run_of_a_program_name_suggests_the_double_dash_command() {
    refused(&["ls", "-l"], "there is no script `ls` here", "`stockade run -- ls -l`");
    refused(
        &["--memory", "64m", "sh", "-c", "a b"],
        "there is no script `sh` here",
        "`stockade run --memory 64m -- sh -c 'a b'`",
    );
    // An existing script of that name runs as a script.
    let scratch = Scratch::new();
    let script = scratch.file("ls", "hello");
    refused(&[&script], "says its language", "--language");
}

#[test]
fn pipe_device_or_socket_as_a_script_is_refused_without_blocking() {
    let scratch = Scratch::new();
    let pipe = scratch.path().join("pipe.py");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let pipe = pipe.to_str().unwrap();
    refused(&[pipe], "is a named pipe, not a file", &format!("- < {pipe}"));
    refused(&["--policy", pipe, "--", "ls"], "is a named pipe, not a file", "standard input");
    refused(&["--language", "python", "/dev/zero"], "is a device, not a file", "name a file");
    let socket = scratch.path().join("socket.py");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    refused(&[socket.to_str().unwrap()], "cannot read the code", "check the path");
}

#[test]
fn policy_of_init_can_be_planned_from_standard_input() {
    let init = stockade(&["policy", "init"]);
    let run = stockade_with_input(&["policy", "plan", "-"], &init.stdout);
    assert!(run.stdout.contains("max_memory_mb"), "{}{}", run.stdout, run.stderr);
}

#[test]
fn help_fits_eighty_columns_and_has_examples_defaults_and_groups() {
    let (short, long) = (stockade(&["run", "-h"]), stockade(&["run", "--help"]));
    for help in [&short, &long] {
        assert_eq!((help.code, help.stderr.as_str()), (0, ""));
        for group in [
            "Limits:",
            "Files and variables:",
            "Network:",
            "Program and output:",
            "Policy and wall:",
        ] {
            assert!(help.stdout.lines().any(|line| line == group), "{group}: {}", help.stdout);
        }
        for line in help.stdout.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
    assert!(short.stdout.lines().count() <= 60, "{}", short.stdout);
    for words in ["Examples:", "Exit codes:", "[default: 512m]", "--no-input", "while read"] {
        assert!(long.stdout.contains(words), "{words}: {}", long.stdout);
    }
}
