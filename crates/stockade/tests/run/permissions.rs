//! Files that an ordinary user may not read.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::support::{Run, binary, finish, is_root, walls_can_be_built};
use stockade_testing::{Scratch, set_mode};

const NOBODY: u32 = 65_534;

/// Runs `stockade run` as an ordinary user: root switches to nobody, other users stay themselves.
fn as_nobody(scratch: &Scratch, words: &[&str]) -> Run {
    let mut command = if is_root() {
        let copied = scratch.path().join("stockade");
        if !copied.exists() {
            std::fs::copy(binary(), &copied).expect("the binary can be copied");
            set_mode(&copied, 0o755);
        }
        let mut command = Command::new(copied);
        command.uid(NOBODY).gid(NOBODY);
        command
    } else {
        Command::new(binary())
    };
    command.args(["run", "--no-record"]).args(words).current_dir("/").env("HOME", "/nonexistent");
    finish(command)
}

#[test]
fn unreadable_file_gives_a_one_line_error_and_nothing_runs() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let script = scratch.file("script.py", "print('ran')\n");
    let policy = scratch.file("policy.yaml", "{}\n");
    let folder = scratch.directory("folder");
    let inner = scratch.file("folder/inner", "inner\n");
    let mount = format!("{inner}:/data/inner");
    let runs: [(&str, Vec<&str>); 3] = [
        ("script.py", vec![&script]),
        ("policy.yaml", vec!["--policy", &policy, "--", "echo", "ran"]),
        ("folder/inner", vec!["--mount", &mount, "--", "echo", "ran"]),
    ];
    for (_, words) in &runs {
        assert_eq!(as_nobody(&scratch, words).text(), "ran\n", "{words:?}");
    }
    for path in [&script, &policy, &folder] {
        set_mode(Path::new(path), 0);
    }
    for (named, words) in &runs {
        let run = as_nobody(&scratch, words);
        assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{words:?}: {}", run.stderr);
        let (first, rest) = run.stderr.split_once('\n').expect("a message is a line");
        assert!(first.starts_with("error: ") && first.contains(named), "{}", run.stderr);
        assert!(first.contains("ermission denied"), "{}", run.stderr);
        assert!(rest.starts_with("  = ") && rest.lines().count() == 1, "{}", run.stderr);
    }
    set_mode(Path::new(&folder), 0o755);
}
