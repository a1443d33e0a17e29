//! The interpreters of this machine: what is mounted is enough for them to run.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use stockade_interpreters::{Interpreter, Surroundings, find};
use stockade_provider::Language;

use crate::home::{Home, found, is_system, own_binds};

/// Prints Python's own prefixes, then every file from which it read modules or that it mapped.
const REPORT: &str = "
import sys, ssl, sqlite3, ctypes, decimal, json, os
print(sys.prefix)
print(sys.base_prefix)
for path in sys.path:
    if path and os.path.exists(path): print(path)
for module in list(sys.modules.values()):
    if getattr(module, '__file__', None): print(module.__file__)
for line in open('/proc/self/maps'):
    words = line.split()
    if len(words) > 5 and words[5].startswith('/'): print(words[5])
";

/// The surroundings of this process, as a front end would read them.
fn own_surroundings() -> Surroundings {
    let user = fs::metadata("/proc/self").unwrap().uid();
    Surroundings::from_variables(|name| env::var_os(name), env::temp_dir(), user)
}

fn explicit(path: &Path) -> Surroundings {
    Surroundings { explicit_python: Some(path.to_path_buf()), ..own_surroundings() }
}

/// Runs Python by its found name with an otherwise empty environment.
fn run(interpreter: &Interpreter, code: &str) -> Vec<PathBuf> {
    let mut python = Command::new(&interpreter.program);
    python.env_clear().env("LD_LIBRARY_PATH", env::join_paths(&interpreter.library_path).unwrap());
    let output = python.args(["-s", "-c", code]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", interpreter.program.display());
    String::from_utf8(output.stdout).unwrap().lines().map(PathBuf::from).collect()
}

/// Checks that every file that Python used is mounted, and returns its prefix and base prefix.
fn check_enough(interpreter: &Interpreter) -> (PathBuf, PathBuf) {
    let used = run(interpreter, REPORT);
    let shown = |path: &Path| {
        let real = fs::canonicalize(path).unwrap();
        is_system(&real) || interpreter.binds.iter().any(|bind| real.starts_with(&bind.host))
    };
    // Debian links one module to a settings file; Python also starts without it.
    let settings = |path: &Path| path.ends_with("sitecustomize.py");
    let missing: BTreeSet<_> = used.iter().filter(|it| !shown(it) && !settings(it)).collect();
    assert!(missing.is_empty(), "not shown: {missing:?}; shown: {:?}", interpreter.binds);
    (used[0].clone(), used[1].clone())
}

fn make_environment(base: &Path, directory: &Path, options: &[&str]) {
    let mut python = Command::new(base);
    python.args(["-m", "venv", "--without-pip"]).args(options).arg(directory);
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn own_python_is_the_one_that_a_shell_starts() {
    let interpreter = found(&own_surroundings());
    let (prefix, _) = check_enough(&interpreter);
    let output = Command::new("python3")
        .current_dir(env::temp_dir())
        .args(["-c", "import sys; print(sys.prefix)"])
        .output()
        .unwrap();
    assert_eq!(prefix.to_str().unwrap(), String::from_utf8_lossy(&output.stdout).trim());
}

#[test]
fn system_python_needs_only_system_files() {
    let surroundings = Surroundings { path: Some("/usr/bin:/bin".into()), ..own_surroundings() };
    let interpreter =
        found(&Surroundings { virtual_env: None, conda_prefix: None, ..surroundings });
    assert_eq!(own_binds(&interpreter), Vec::<PathBuf>::new());
    check_enough(&interpreter);
}

#[test]
fn every_python_on_this_machines_path_has_all_its_files() {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut checked = 0;
    for directory in env::split_paths(&path) {
        let alone = Some(OsString::from(&directory));
        let surroundings = Surroundings { path: alone, ..own_surroundings() };
        if let Ok(interpreter) = find(Language::Python, &surroundings) {
            check_enough(&interpreter);
            checked += 1;
        }
    }
    assert!(checked > 0, "no python3 on PATH, which ./test needs");
}

#[test]
fn real_environments_of_every_kind_have_all_their_files() {
    let home = Home::new();
    let base = found(&own_surroundings()).program;
    for options in
        [["--symlinks"].as_slice(), ["--copies"].as_slice(), ["--system-site-packages"].as_slice()]
    {
        let environment = home.path(&format!("venv{}", options[0]));
        make_environment(&base, &environment, options);
        let interpreter = found(&explicit(&environment));
        let (prefix, base_prefix) = check_enough(&interpreter);
        assert_eq!(prefix, environment, "{options:?}");
        let (_, expected) = check_enough(&found(&own_surroundings()));
        assert_eq!(base_prefix, expected, "{options:?}");
    }
}

#[test]
fn real_nested_environment_has_all_its_files() {
    let home = Home::new();
    let base = found(&own_surroundings()).program;
    let (first, second) = (home.path("first"), home.path("second"));
    make_environment(&base, &first, &[]);
    make_environment(&first.join("bin/python"), &second, &[]);
    let interpreter = found(&explicit(&second));
    assert_eq!(check_enough(&interpreter).0, second);
}

#[test]
fn node_and_bash_of_this_machine_have_all_their_files() {
    let bash = find(Language::Bash, &own_surroundings()).unwrap();
    let output = Command::new(&bash.program).env_clear().args(["-c", "echo $0"]).output().unwrap();
    assert!(output.status.success());
    // Node.js is optional: on a machine without it, an error is correct.
    if let Ok(node) = find(Language::JavaScript, &own_surroundings()) {
        let output = Command::new(&node.program).env_clear().arg("--version").output().unwrap();
        assert!(output.status.success());
    }
}
