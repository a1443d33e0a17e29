//! Code and its standard streams.

use std::fmt::Write as _;
use std::process::Command;

use serde_json::json;

use crate::support::{
    Conversation, binary, command, finish_with, outside, report, skipped, stockade,
    walls_can_be_built,
};
use stockade_testing::Scratch;

#[test]
fn script_runs_with_arguments_that_look_like_options() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let script = scratch.file("show.py", "import sys; print(sys.argv[1:])\n");
    let arguments = ["--memory", "1", "--", "-h", "", "a b", "$HOME;`id`", "*", "ü"];
    let run = stockade(&[&[script.as_str()], &arguments[..]].concat());
    let expected = outside(&[&["python3", script.as_str()], &arguments[..]].concat());
    assert_eq!(run.text(), expected.text());
    let run = stockade(&["--", "printf", "%s|", "--json", "--", "-x", "$(id)"]);
    assert_eq!(run.text(), "--json|--|-x|$(id)|");
}

#[test]
fn code_from_standard_input_gets_empty_input() {
    if !walls_can_be_built() {
        return;
    }
    let code = b"import sys; print(sys.argv[1:], repr(sys.stdin.read()))\n";
    let run = finish_with(command(&["--language", "python", "-", "a"]), code);
    assert_eq!(run.text(), "['a'] ''\n");
    let run = finish_with(command(&["-"]), b"#!/usr/bin/env bash\necho ${BASH_VERSION%%.*}\n");
    assert!(run.text().trim().parse::<u32>().unwrap() >= 3);
}

#[test]
fn code_is_read_from_open_descriptors_of_the_caller() {
    if !walls_can_be_built() {
        return;
    }
    let stockade = binary();
    let stockade = stockade.to_str().expect("paths are text");
    let shell = |line: &str| outside(&["bash", "-c", line, "bash", stockade]);
    let code = "printf 'import sys; print(repr(sys.stdin.read()))\\n'";
    let run = shell(&format!("echo rest | \"$1\" run --language python <({code})"));
    assert_eq!(run.text(), "'rest\\n'\n");
    // Stockade waits for a pipe that is written to later.
    let run = shell(&format!("\"$1\" run --no-input --language python <(sleep 0.2; {code})"));
    assert_eq!(run.text(), "''\n");
    for name in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        let run = shell(&format!("{code} | \"$1\" run --language python {name}"));
        assert_eq!(run.text(), "''\n", "{name}");
    }
    let run = shell("\"$1\" run --policy <(echo 'limits: {max_pids: 9}') -- echo ran");
    assert_eq!(run.text(), "ran\n");
}

#[test]
fn no_input_leaves_standard_input_to_the_calling_loop() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let list = scratch.file("list", "one\ntwo\nthree\n");
    let stockade = binary();
    let stockade = stockade.to_str().expect("paths are text");
    let turns = |option: &str| {
        let run = format!("\"$1\" run {option} -- sh -c 'cat >/dev/null; echo turn'");
        let line = format!("while read -r name; do {run}; done < {list}");
        outside(&["bash", "-c", &line, "bash", stockade]).text().to_owned()
    };
    assert_eq!(turns(""), "turn\n", "the first run takes the rest of the list");
    assert_eq!(turns("--no-input"), "turn\nturn\nturn\n");
}

#[test]
fn ten_megabytes_of_code_run() {
    if !walls_can_be_built() {
        return;
    }
    let mut code = String::from("total = 0\n");
    while code.len() < 10 << 20 {
        writeln!(code, "# {}", "x".repeat(4000)).unwrap();
    }
    code.push_str("print('at the end', total)\n");
    let scratch = Scratch::new();
    let script = scratch.file("large.py", &code);
    assert_eq!(stockade(&[&script]).text(), "at the end 0\n");
    let run = finish_with(command(&["--language", "python", "-"]), code.as_bytes());
    assert_eq!(run.text(), "at the end 0\n");
}

#[test]
fn language_comes_from_the_flag_the_extension_or_the_first_line() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let ending = scratch.file("a.sh", "echo ${BASH_VERSION:+bash}\n");
    let line = scratch.file("b", "#!/usr/bin/python3\nprint('python')\n");
    let said = scratch.file("c.txt", "print('python')\n");
    let strange = scratch.file("naïve – 名前 'x'.py", "print('python')\n");
    assert_eq!(stockade(&[&ending]).text(), "bash\n");
    assert_eq!(stockade(&[&line]).text(), "python\n");
    assert_eq!(stockade(&["--language", "python", &said]).text(), "python\n");
    assert_eq!(stockade(&[&strange]).text(), "python\n");
    let windows = scratch.file("d.py", "import sys\r\nif True:\r\n    print('python')\r\n");
    assert_eq!(stockade(&[&windows]).text(), "python\n");
}

#[test]
fn javascript_runs_where_the_host_has_node() {
    if !walls_can_be_built() {
        return;
    }
    if Command::new("node").arg("--version").output().is_err() {
        return skipped("node", "this host has no node");
    }
    let scratch = Scratch::new();
    let script = scratch.file("a.js", "console.log(process.argv.slice(2), 6 * 7);\n");
    assert_eq!(stockade(&[script.as_str(), "--x"]).text(), "[ '--x' ] 42\n");
    let run = finish_with(command(&["--language", "javascript", "-"]), b"console.log(1)");
    assert_eq!(run.text(), "1\n");
}

#[test]
fn program_answers_line_by_line_while_it_runs() {
    if !walls_can_be_built() {
        return;
    }
    let echo = "import sys
for line in sys.stdin: print('heard', line.strip(), flush=True)
print('end')";
    let mut talk = Conversation::start(command(&["--", "python3", "-c", echo]));
    for number in 0..50 {
        talk.say(&number.to_string());
        assert_eq!(talk.hear(), format!("heard {number}"));
    }
    drop(talk.0.stdin.take());
    assert_eq!(talk.hear(), "end");
    assert_eq!(talk.end(), 0);
}

#[test]
fn bytes_pass_unchanged_in_both_directions() {
    if !walls_can_be_built() {
        return;
    }
    let bytes: Vec<u8> = (0..20_000_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0])
        .collect();
    let run = finish_with(command(&["--max-output", "20m", "--", "cat"]), &bytes);
    assert_eq!((run.code, run.bytes.len()), (0, bytes.len()), "{}", run.stderr);
    assert!(run.bytes == bytes, "bytes were changed on the way");
    let (_, report) = report(&["--", "printf", r"a\377\000b"]);
    assert_eq!(report["stdout_base64"], "Yf8AYg==");
}

#[test]
fn stdout_and_stderr_stay_separate_and_in_order() {
    if !walls_can_be_built() {
        return;
    }
    let script = "for n in 1 2 3; do echo out $n; echo err $n >&2; done; exit 3";
    let run = stockade(&["--", "sh", "-c", script]);
    assert_eq!(run.code, 3);
    assert_eq!(run.stdout, "out 1\nout 2\nout 3\n");
    assert_eq!(run.messages(), "err 1\nerr 2\nerr 3\n");
    let (_, report) = report(&["--", "sh", "-c", script]);
    assert_eq!(report["stderr"], json!("err 1\nerr 2\nerr 3\n"));
}

#[test]
fn child_that_outlives_its_parent_does_not_delay_the_end_of_the_run() {
    if !walls_can_be_built() {
        return;
    }
    let run = stockade(&["--timeout", "20s", "--", "sh", "-c", "(sleep 60; echo late) & echo now"]);
    assert_eq!(run.text(), "now\n");
    assert!(run.elapsed.as_secs() < 10, "{:?}", run.elapsed);
}
