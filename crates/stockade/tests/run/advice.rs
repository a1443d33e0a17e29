//! Hints after a failure, and output on a terminal.

use std::path::Path;

use crate::support::{Run, binary, command, finish, outside, report, stockade, walls_can_be_built};
use stockade_testing::{Scratch, set_mode};

/// Runs `stockade run` in a directory.
fn stockade_in(directory: &Path, words: &[&str]) -> Run {
    let mut command = command(words);
    command.current_dir(directory);
    finish(command)
}

/// The arguments of the `stockade run` command that the hint quotes between backquotes.
fn advised(run: &Run) -> Vec<String> {
    let hint = run.stderr.lines().find(|line| line.starts_with("stockade: hint: "));
    let hint = hint.unwrap_or_else(|| panic!("no hint: {}", run.stderr));
    let command = hint.split('`').nth(1).unwrap_or_else(|| panic!("no command: {hint}"));
    let words = command.strip_prefix("stockade run ").expect("it is a run");
    words.split(' ').map(str::to_owned).collect()
}

#[test]
fn missing_file_or_module_next_to_a_script_gets_a_workspace_hint_that_works() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let here = scratch.path();
    scratch.file("data.csv", "1,2\n");
    scratch.file("helper.py", "word = 'helped'\n");
    scratch.file("reads.py", "print(open('data.csv').read())\n");
    scratch.file("imports.py", "import helper; print(helper.word)\n");
    let run = stockade_in(here, &["reads.py"]);
    assert_eq!(run.code, 1);
    assert!(
        run.stderr.contains("hint: programs start in /workspace, which is empty"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("--workspace . shows"), "{}", run.stderr);
    assert_eq!(stockade_in(here, &["--workspace", ".", "reads.py"]).text(), "1,2\n\n");
    let run = stockade_in(here, &["imports.py"]);
    assert!(run.stderr.contains("only the script itself was taken inside"), "{}", run.stderr);
    let words = advised(&run);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_eq!(words, ["--workspace", ".", "--", "python3", "imports.py"]);
    assert_eq!(stockade_in(here, &words).text(), "helped\n");
    // The author of the code may read the report, so it must not reveal which files the host has.
    let run = stockade_in(here, &["--json", "reads.py"]);
    assert_eq!(run.json()["hints"].as_array().map(Vec::len), Some(0));
}

#[test]
fn host_script_or_program_after_two_hyphens_gets_a_hint_how_to_run_it() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let here = scratch.path();
    scratch.file("a.py", "print('ran')\n");
    let program = scratch.file("prog", "#!/bin/sh\necho ran\n");
    set_mode(Path::new(&program), 0o755);
    let run = stockade_in(here, &["--", "a.py"]);
    assert_eq!(run.code, 127);
    assert_eq!(advised(&run), ["a.py"]);
    assert_eq!(stockade_in(here, &["a.py"]).text(), "ran\n");
    let run = stockade_in(here, &["--", "./prog"]);
    assert_eq!(run.code, 127);
    assert!(run.stderr.contains("--workspace . shows"), "{}", run.stderr);
    assert_eq!(stockade_in(here, &["--workspace", ".", "--", "./prog"]).text(), "ran\n");
    let run = stockade_in(here, &["--", "python3", "a.py"]);
    assert!(run.stderr.contains("a.py is here on the host"), "{}", run.stderr);
    let run = stockade_in(here, &["--", "./nowhere"]);
    assert!(run.code == 127 && !run.stderr.contains("hint"), "{}", run.stderr);
}

#[test]
fn code_larger_than_the_disk_limit_gets_a_hint_to_raise_it() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let script = scratch.file("large.py", format!("print('ran')\n#{}\n", "x".repeat(10 << 20)));
    let run = stockade(&["--disk", "4m", &script]);
    assert_eq!((run.code, run.stdout.as_str()), (127, ""));
    assert!(run.stderr.contains("hint: the code does not fit into the 4 MiB"), "{}", run.stderr);
    assert!(run.stderr.contains("raise --disk"), "{}", run.stderr);
    assert_eq!(stockade(&["--disk", "16m", &script]).text(), "ran\n");
    let (_, report) = report(&["--disk", "4m", &script]);
    assert!(report["hints"][0].as_str().unwrap().contains("--disk"), "{report}");
}

#[test]
fn missing_module_names_the_flag_that_chooses_a_python() {
    if !walls_can_be_built() {
        return;
    }
    let run = stockade(&["--", "python3", "-c", "import no_such_module_here"]);
    assert_eq!(run.code, 1);
    let hint =
        run.stderr.lines().find(|line| line.starts_with("stockade: hint: the Python")).unwrap();
    assert!(hint.contains("`no_such_module_here`") && hint.contains("--python"), "{hint}");
    let run = stockade(&["--quiet", "--", "python3", "-c", "import no_such_module_here"]);
    assert!(!run.stderr.contains("stockade:"), "{}", run.stderr);
}

#[test]
fn path_that_exists_only_on_the_host_gets_a_mount_hint() {
    if !walls_can_be_built() {
        return;
    }
    // Exists on every host and in no sandbox.
    let path = "/etc/fstab";
    assert!(std::path::Path::new(path).exists(), "{path} is on the host");
    let words = ["--", "python3", "-c", "import sys; open(sys.argv[1])", path];
    let run = stockade(&words);
    assert!(run.stderr.contains(&format!("--mount {path}:{path}")), "{}", run.stderr);
    // The author of the code may read the report, so it must not reveal which files the host has.
    let (code, report) = report(&words);
    assert_eq!((code, report["hints"].as_array().map(Vec::len)), (1, Some(0)));
    let scratch = Scratch::new();
    let open = format!("open('{}/nowhere')", scratch.text());
    let run = stockade(&["--", "python3", "-c", &open]);
    assert!(!run.stderr.contains("hint"), "{}", run.stderr);
}

#[test]
fn path_that_only_the_program_printed_is_never_looked_up_on_the_host() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    scratch.file("there.txt", "x\n");
    let said = |name: &str| {
        let code = "import os, sys\n\
                    name = os.environ['NAME']\n\
                    sys.exit(f\"No such file or directory: '{name}'\")";
        let set = format!("NAME={name}");
        let run = stockade_in(scratch.path(), &["--env", &set, "--", "python3", "-c", code]);
        assert_eq!(run.code, 1, "{}", run.stderr);
        run.stderr.replace(name, "NAME")
    };
    for (there, gone) in [
        ("there.txt", "gone.txt"),
        ("/workspace/there.txt", "/workspace/gone.txt"),
        ("/run/code/there.txt", "/run/code/gone.txt"),
        // The first exists on every host, the second on none.
        ("/etc/fstab", "/etc/stockade-nowhere"),
    ] {
        assert_eq!(said(there), said(gone));
    }
    // Paths in the caller's arguments are looked up.
    let run = stockade(&["--", "cat", "/etc/fstab"]);
    assert!(run.stderr.contains("/etc/fstab exists on the host"), "{}", run.stderr);
    let run = stockade_in(scratch.path(), &["--", "cat", "there.txt"]);
    assert!(run.stderr.contains("there.txt is here on the host"), "{}", run.stderr);
}

/// Runs `stockade run` with a terminal as its output.
fn on_a_terminal(words: &[&str]) -> String {
    let stockade = binary();
    let run = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
    let start = ["python3", "-c", run, stockade.to_str().expect("paths are text"), "run"];
    outside(&[&start[..], words].concat()).stdout
}

#[test]
fn terminal_gets_escape_sequences_as_text_without_raw() {
    if !walls_can_be_built() {
        return;
    }
    let clear = ["--", "printf", r"a\033[2Jb\033]0;title\007\n"];
    let shown = on_a_terminal(&clear);
    assert!(shown.contains(r"a\x1b[2Jb\x1b]0;title\x07"), "{shown:?}");
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{7}'), "{shown:?}");
    let raw = on_a_terminal(&[&["--raw"], &clear[..]].concat());
    assert!(raw.contains("a\u{1b}[2Jb\u{1b}]0;title\u{7}"), "{raw:?}");
    let piped = stockade(&clear);
    assert_eq!(piped.text(), "a\u{1b}[2Jb\u{1b}]0;title\u{7}\n");
}

#[test]
fn program_on_a_terminal_cannot_forge_a_line_of_stockade() {
    if !walls_can_be_built() {
        return;
    }
    let forge = ["--", "printf", r"stockade: all is well\nhidden\rstockade: shown\nopen"];
    let shown = on_a_terminal(&forge);
    assert_eq!(shown, "stockade\\x3a all is well\r\nhidden\r\nstockade\\x3a shown\r\nopen");
    // A line of Stockade starts on a new line, with a bold prefix that a program cannot print.
    let killed = ["--", "sh", "-c", r"printf 'stockade: fine\nopen'; kill -9 $$"];
    let shown = on_a_terminal(&killed);
    let own = "\r\n\u{1b}[1mstockade:\u{1b}[0m killed by SIGKILL\r\n";
    assert_eq!(shown, format!("stockade\\x3a fine\r\nopen{own}"));
    // A pipe gets every byte unchanged.
    assert_eq!(stockade(&forge).text(), "stockade: all is well\nhidden\rstockade: shown\nopen");
    assert!(on_a_terminal(&[&["--raw"], &forge[..]].concat()).contains("hidden\rstockade: shown"));
}

#[test]
fn newline_in_a_program_name_adds_no_line_to_the_message() {
    if !walls_can_be_built() {
        return;
    }
    let run = stockade(&["--", "/nowhere\nstockade: all is well"]);
    assert_eq!(run.code, 127);
    let messages = run.messages();
    let lines: Vec<&str> = messages.lines().collect();
    assert!(
        lines.len() == 1 && lines[0].starts_with("stockade: cannot start /nowhere"),
        "{lines:?}"
    );
}

#[test]
fn missing_program_gets_a_hint_whether_the_host_has_it() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    scratch.directory("bin");
    let tool = scratch.file("bin/planted-tool", "#!/bin/sh\necho ran\n");
    set_mode(Path::new(&tool), 0o755);
    let path = format!("{}/bin:/usr/bin:/bin", scratch.text());
    let run = |words: &[&str]| {
        let mut command = command(words);
        command.env("PATH", &path);
        finish(command)
    };
    let missing = run(&["--", "planted-tool"]);
    assert_eq!(missing.code, 127, "{missing:?}");
    assert!(
        missing.stderr.contains(&format!("`planted-tool` is {tool} on this host")),
        "{missing:?}"
    );
    let mount = format!("{tool}:{tool}");
    assert!(missing.stderr.contains(&format!("--mount {mount}")), "{missing:?}");
    assert_eq!(run(&["--mount", &mount, "--", &tool]).text(), "ran\n");
    let missing = run(&["--", "no-such-program-anywhere"]);
    assert!(missing.stderr.contains("in the PATH of this host either"), "{missing:?}");
}
