//! What a program finds inside.

use std::process::Command;

use stockade_testing::examples;

use crate::support::{command, finish_of, named, run, run_file, run_with, wall};

named![
    example_prints_its_greeting,
    platform_is_wasi_and_the_environment_is_empty,
    variables_of_the_caller_are_the_only_ones,
    native_packages_are_refused_with_the_reason,
    sockets_do_not_exist,
    processes_and_threads_do_not_exist,
    code_over_ten_mebibytes_is_refused,
    exit_codes_are_the_programs_own,
    arguments_and_input_reach_the_program,
    traceback_shows_the_programs_lines_only,
    whole_library_can_be_imported,
    asyncio_runs_tasks_and_timers,
    random_numbers_differ_between_executions,
    command_and_other_languages_are_refused_by_name,
];

fn example_prints_its_greeting() {
    let run = run_file(&[], &examples().join("hello.py"));
    assert!(run.text().starts_with("Hello from inside the stockade, Python 3."), "{run:?}");
}

fn platform_is_wasi_and_the_environment_is_empty() {
    let code = "import os, sys; print(sys.platform, dict(os.environ), os.getcwd())";
    assert_eq!(run(code).text(), "wasi {} /workspace\n");
}

fn variables_of_the_caller_are_the_only_ones() {
    let code = "import os; print(dict(os.environ))";
    assert_eq!(run_with(&["--env", "COLOUR=blue"], code).text(), "{'COLOUR': 'blue'}\n");
}

fn native_packages_are_refused_with_the_reason() {
    let absent = run("import numpy");
    assert_eq!(absent.code, 1, "{absent:?}");
    assert!(absent.stderr.contains("ModuleNotFoundError: No module named 'numpy'"), "{absent:?}");
    let why = "no directory of sys.path has numpy. Packages in pure Python run from a mounted \
               directory; packages with native code, such as numpy, cannot run behind this wall: \
               use the native wall or docker for them";
    assert!(absent.stderr.contains(why), "{absent:?}");
    // A package that is there, with a part in native code.
    let code = r#"
import os, sys
os.makedirs("packages/mixed")
open("packages/mixed/__init__.py", "w").write("""
try:
    from . import _fast
except ImportError as error:
    raise ImportError("reinstall it") from error
""")
open("packages/mixed/_fast.cpython-314-x86_64-linux-gnu.so", "w")
open("packages/plain.py", "w").write("answer = 42")
sys.path.insert(0, "packages")
import plain
print(plain.answer)
import mixed
"#;
    let mixed = run(code);
    assert_eq!((mixed.code, mixed.stdout.as_str()), (1, "42\n"), "{mixed:?}");
    let why = "mixed._fast is native code \
               (packages/mixed/_fast.cpython-314-x86_64-linux-gnu.so), which cannot run behind";
    assert!(mixed.stderr.contains(why), "{mixed:?}");
    let system = run("import ssl");
    assert!(system.stderr.contains("has no _ssl: it needs an operating system"), "{system:?}");
    // A program that handles the error sees no difference, and other errors have no note.
    let code = "try:\n    import numpy\nexcept ImportError as error:\n    print(error)\n\
                import importlib.util\nprint(importlib.util.find_spec('numpy'))";
    assert_eq!(run(code).text(), "No module named 'numpy'\nNone\n");
    for code in ["from os import absent", "import json.absent"] {
        let mistake = run(code);
        assert!(mistake.stderr.contains("absent"), "{mistake:?}");
        assert!(!mistake.stderr.contains("this wall"), "{mistake:?}");
    }
}

fn sockets_do_not_exist() {
    let code = r#"
import socket
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    try:
        socket.socket(socket.AF_INET, kind)
        print("made one")
    except OSError as error:
        print(type(error).__name__)
try:
    print(socket.getaddrinfo("localhost", 80))
except OSError as error:
    print("no name")
"#;
    assert_eq!(run(code).text(), "PermissionError\nPermissionError\nno name\n");
    // Outside, the same program makes them.
    let outside = Command::new("python3").args(["-c", code]).output().expect("python3 is there");
    let outside = String::from_utf8_lossy(&outside.stdout).into_owned();
    assert!(outside.starts_with("made one\nmade one\n"), "{outside}");
}

fn processes_and_threads_do_not_exist() {
    let code = r#"
import subprocess, threading
try:
    subprocess.run(["true"])
    print("started")
except OSError:
    print("no process")
try:
    threading.Thread(target=print).start()
    print("started")
except RuntimeError:
    print("no thread")
"#;
    assert_eq!(run(code).text(), "no process\nno thread\n");
    let outside = Command::new("python3").args(["-c", code]).output().expect("python3 is there");
    let outside = String::from_utf8_lossy(&outside.stdout).into_owned();
    assert_eq!(outside.matches("started").count(), 2, "{outside}");
}

fn code_over_ten_mebibytes_is_refused() {
    let fits = format!("print(1)#{}", "x".repeat((10 << 20) - 9));
    assert_eq!(run(&fits).text(), "1\n");
    let run = run(&format!("{fits}x"));
    assert!(run.stderr.contains("at most 10485760"), "{run:?}");
    assert_ne!(run.code, 0);
}

fn exit_codes_are_the_programs_own() {
    for (code, expected) in [
        ("pass", 0),
        ("raise SystemExit(7)", 7),
        ("import sys; sys.exit('bad')", 1),
        ("1 / 0", 1),
        ("import os; os._exit(1)", 1),
        ("def f(:", 1),
    ] {
        assert_eq!(run(code).code, expected, "{code}");
    }
    assert_eq!(run("import sys; sys.exit('bad')").stderr, "bad\n");
}

fn arguments_and_input_reach_the_program() {
    let (_scratch, path) =
        crate::support::directory(&[("a.py", "import sys; print(sys.argv[1:], sys.stdin.read())")]);
    let mut command = command(&[path.join("a.py").to_str().expect("text"), "one", "--two"]);
    let run = finish_of(&mut command, b"typed");
    assert_eq!(run.text(), "['one', '--two'] typed\n");
}

fn traceback_shows_the_programs_lines_only() {
    let run = run("def f():\n    raise ValueError('x')\nf()\n");
    let expected = "Traceback (most recent call last):\n";
    assert!(run.stderr.starts_with(expected), "{run:?}");
    assert!(
        run.stderr.contains("raise ValueError('x')") && run.stderr.ends_with("ValueError: x\n")
    );
    assert!(!run.stderr.contains("stockade_guest"), "{run:?}");
}

fn whole_library_can_be_imported() {
    let code = "import sqlite3, tomllib, xml.etree.ElementTree, email.message, http.client, uuid\n\
                print(sqlite3.connect(':memory:').execute('select 6 * 7').fetchone()[0])";
    assert_eq!(run(code).text(), "42\n");
}

fn asyncio_runs_tasks_and_timers() {
    let code = r#"
import asyncio
async def f(n):
    await asyncio.sleep(n / 100)
    return n
async def main():
    print(await asyncio.gather(f(3), f(1)), await asyncio.to_thread(sum, [1, 2]))
asyncio.run(main())
"#;
    assert_eq!(run(code).text(), "[3, 1] 3\n");
}

fn random_numbers_differ_between_executions() {
    let code =
        "import random, secrets, uuid; print(random.random(), secrets.token_hex(), uuid.uuid4())";
    let (one, other) = (run(code), run(code));
    let words = |run: &stockade_testing::Run| -> Vec<String> {
        run.text().split_whitespace().map(str::to_owned).collect()
    };
    let same = words(&one).into_iter().zip(words(&other)).filter(|(one, other)| one == other);
    assert_eq!(same.count(), 0, "{one:?} {other:?}");
}

fn command_and_other_languages_are_refused_by_name() {
    let run = stockade_testing::finish(command(&["--", "ls", "/"]));
    assert!(run.stderr.contains(&format!("the {} wall does not run commands", wall())), "{run:?}");
    let run = run_language("bash", "echo 1");
    assert!(run.stderr.contains(&format!("the {} wall does not run bash code", wall())), "{run:?}");
    assert!(run.stderr.contains("--provider"), "the remedy is missing: {run:?}");
}

fn run_language(language: &str, code: &str) -> stockade_testing::Run {
    finish_of(&mut command(&["--language", language, "-"]), code.as_bytes())
}
