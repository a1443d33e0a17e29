//! Hints after a failure, and output on a terminal.

use crate::scratch::Scratch;
use crate::support::{binary, outside, report, stockade, walls_can_be_built};

#[test]
fn missing_module_names_the_flag_that_chooses_a_python() {
    if !walls_can_be_built() {
        return;
    }
    let run = stockade(&["--", "python3", "-c", "import no_such_module_here"]);
    assert_eq!(run.code, 1);
    let hint = run.stderr.lines().find(|line| line.starts_with("stockade: hint: ")).unwrap();
    assert!(hint.contains("`no_such_module_here`") && hint.contains("--python"), "{hint}");
    let run = stockade(&["--quiet", "--", "python3", "-c", "import no_such_module_here"]);
    assert!(!run.stderr.contains("stockade:"), "{}", run.stderr);
}

#[test]
fn path_that_is_only_on_the_host_names_the_flag_that_shows_it() {
    if !walls_can_be_built() {
        return;
    }
    // Every host has it, and no sandbox.
    let path = "/etc/fstab";
    assert!(std::path::Path::new(path).exists(), "{path} is on the host");
    let words = ["--", "python3", "-c", "import sys; open(sys.argv[1])", path];
    let run = stockade(&words);
    assert!(run.stderr.contains(&format!("--mount {path}:{path}")), "{}", run.stderr);
    // A report may reach whoever wrote the code, and must not tell what the host has.
    let (code, report) = report(&words);
    assert_eq!((code, report["hints"].as_array().map(Vec::len)), (1, Some(0)));
    let scratch = Scratch::new();
    let open = format!("open('{}/nowhere')", scratch.text());
    let run = stockade(&["--", "python3", "-c", &open]);
    assert!(!run.stderr.contains("hint"), "{}", run.stderr);
}

/// Runs `stockade run` with a terminal as its output.
fn on_a_terminal(words: &[&str]) -> String {
    let stockade = binary();
    let run = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
    let start = ["python3", "-c", run, stockade.to_str().expect("paths are text"), "run"];
    outside(&[&start[..], words].concat()).text().to_owned()
}

#[test]
fn terminal_is_shown_escape_sequences_as_text_unless_raw() {
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
