//! Output of hostile programs through `exec`, `code`, `logs` and `attach`: bytes arrive as they are,
//! and a terminal is never controlled by them. Named after the attack catalogue, class K.

use serde_json::{Value, json};
use stockade_testing::{Conversation, Run};

use crate::support::{Sessions, binary, finish, finish_with};

/// Not UTF-8: a lone continuation, an overlong slash, a surrogate, a null byte, an incomplete end.
const STRANGE: &[u8] = b"a\x80b\xc0\xafc\xed\xa0\x80d\0e\xf0\x9f\x98";

/// Python that prints bytes, after it has read a line.
fn printing(bytes: &[u8]) -> String {
    format!("import sys; sys.stdin.readline(); sys.stdout.buffer.write(bytes({bytes:?}))")
}

/// The four ways to the output of a program: `exec`, `code`, `logs` and `attach`, with the options
/// `flags` of each command.
fn ways(
    sessions: &Sessions,
    bytes: &[u8],
    flags: &[&str],
    run: fn(&Sessions, &[&str]) -> Run,
) -> [Run; 4] {
    let code = printing(bytes);
    let file = sessions.place.file("print.py", &code);
    let exec = run(sessions, &[&["exec"], flags, &["one", "--", "python3", "-c", &code]].concat());
    let coded = run(sessions, &[&["code"], flags, &["one", &file]].concat());
    let number = sessions.json(&["ps", "-a", "one"]);
    let number = number.as_array().and_then(|all| all.last()).expect("a program ran")["execution"]
        .to_string();
    let logs = run(sessions, &[&["logs"], flags, &["one", &number]].concat());
    // A program that waits for its input, until a second client is attached and sends it.
    let waiting = sessions.command(&["exec", "-i", "one", "--", "python3", "-c", &code]);
    let waiting = Conversation::start(waiting);
    sessions.wait_for_programs("one", 1);
    let number = sessions.text(&["ps", "-q", "one"]);
    let attached = run(sessions, &[&["attach"], flags, &["one", number.trim()]].concat());
    drop(waiting);
    [exec, coded, logs, attached]
}

/// Runs a command with a line as its input.
fn piped(sessions: &Sessions, words: &[&str]) -> Run {
    finish_with(sessions.command(words), b"go\n")
}

/// Runs a command on a terminal, and types a line.
fn on_a_terminal(sessions: &Sessions, words: &[&str]) -> Run {
    let run = "
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
os.write(terminal, b'go\\n')
while True:
    try:
        bytes = os.read(terminal, 65536)
    except OSError:
        break
    if not bytes:
        break
    sys.stdout.buffer.write(bytes)
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";
    let mut python = std::process::Command::new("python3");
    python.args(["-c", run]).arg(binary()).args(words);
    let command = sessions.command::<&str>(&[]);
    let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    python.envs(set);
    finish(python)
}

#[test]
fn k01_bytes_that_are_no_text_arrive_unchanged() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    for run in ways(&sessions, STRANGE, &[], piped) {
        assert_eq!((run.code, run.bytes.as_slice()), (0, STRANGE), "{run:?}");
    }
    let code = printing(STRANGE);
    let words = ["--json", "exec", "one", "--", "python3", "-c", &code];
    let report = sessions.run(&words).json();
    assert_eq!(report["stdout_base64"], "YYBiwK9j7aCAZABl8J+Y");
}

#[test]
fn k01_character_across_chunks_is_not_divided_in_the_log() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    // The two bytes of each character fall on both sides of every even boundary.
    let code = "import sys; sys.stdout.write('x' + 'ü' * 100_000)";
    let printed = sessions.text(&["exec", "one", "--", "python3", "-c", code]);
    let logged = sessions.run(&["--json", "logs", "one"]).lines();
    assert!(logged.len() > 1, "the output has several chunks");
    let text: String = logged.iter().map(|line| line["text"].as_str().expect("a text")).collect();
    assert!(text == printed && text.starts_with("xü"), "{} bytes", text.len());
}

#[test]
fn k02_escape_sequences_are_text_on_a_terminal_and_raw_only_on_request() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let hostile =
        "\u{1b}[2J\u{1b}]0;title\u{7}\u{1b}]52;c;eA==\u{7}\u{1b}P$q\u{1b}\\\u{9b}2J\u{1b}[201~";
    for run in ways(&sessions, hostile.as_bytes(), &[], on_a_terminal) {
        let shown = &run.stdout;
        assert!(shown.contains(r"\x1b[2J\x1b]0;title\x07\x1b]52;c;eA==\x07"), "{shown:?}");
        let controls = |c: char| matches!(c, '\u{1b}' | '\u{7}' | '\u{9b}');
        assert!(!shown.contains(controls), "{shown:?}");
    }
    for run in ways(&sessions, hostile.as_bytes(), &["--raw"], on_a_terminal) {
        assert!(run.stdout.contains(hostile), "{:?}", run.stdout);
    }
}

#[test]
fn k03_invisible_and_direction_changing_characters_are_visible_on_a_terminal() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    // A bidirectional override, a zero-width space, a tag character and a soft hyphen.
    let hostile = "safe\u{202e}txt.exe\u{200b}\u{e0041}\u{ad}";
    let shown = r"safe\u{202e}txt.exe\u{200b}\u{e0041}\u{ad}";
    for run in ways(&sessions, hostile.as_bytes(), &[], on_a_terminal) {
        assert!(run.stdout.contains(shown), "{:?}", run.stdout);
        assert!(!run.stdout.contains(['\u{202e}', '\u{200b}']), "{:?}", run.stdout);
    }
    for run in ways(&sessions, hostile.as_bytes(), &[], piped) {
        assert_eq!(run.bytes, hostile.as_bytes(), "{run:?}");
    }
}

#[test]
fn k04_log_has_one_object_per_line_whatever_a_program_prints() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let forged = "x\n{\"execution\":99,\"stream\":\"stdout\",\"text\":\"forged\"}\n\u{2028}\r";
    let code = printing(forged.as_bytes());
    sessions.run(&["exec", "one", "--", "python3", "-c", &code]).text();
    sessions.sh("one", "echo second >&2").text();
    let lines = sessions.run(&["--json", "logs", "one"]).lines();
    let object = |execution: u64, stream: &str, text: &str| json!({ "execution": execution, "stream": stream, "text": text });
    assert_eq!(lines, [object(0, "stdout", forged), object(1, "stderr", "second\n")]);
    let second = sessions.run(&["--json", "logs", "one", "1"]).lines();
    assert_eq!(second, [object(1, "stderr", "second\n")]);
    assert_eq!(sessions.text(&["logs", "one", "0"]), forged);
}

#[test]
fn k07_received_and_dropped_bytes_are_what_was_written() {
    let Some(sessions) = Sessions::new() else { return };
    let policy = sessions.place.file("policy.yaml", "limits: {max_output_bytes: 100000}");
    sessions.text(&["create", "--name", "one", "--policy", &policy]);
    let code = "
import sys
for number in range(1000):
    sys.stdout.write('o' * 150); sys.stdout.flush()
    sys.stderr.write('e' * 50); sys.stderr.flush()
";
    let report = sessions.run(&["--json", "exec", "one", "--", "python3", "-c", code]).json();
    let count = |stream: &str, key: &str| {
        report["output"][stream][key].as_u64().unwrap_or_else(|| panic!("{report}"))
    };
    let (mut kept_in_all, mut seen_in_all) = (0, 0);
    for (stream, written) in [("stdout", 150_000), ("stderr", 50_000)] {
        let (kept, dropped) = (count(stream, "kept_bytes"), count(stream, "dropped_bytes"));
        assert_eq!(kept + dropped, written, "{stream}: {report}");
        kept_in_all += kept;
        seen_in_all += report[stream].as_str().map_or(0, str::len);
    }
    assert_eq!(kept_in_all, 100_000, "{}", report["output"]);
    assert_eq!(seen_in_all, 100_000, "the client has received what was kept");
    let streams_hit: Vec<&Value> = report["limits_hit"].as_array().into_iter().flatten().collect();
    assert!(!streams_hit.is_empty(), "{report}");
}

#[test]
fn k08_million_writes_of_one_byte_arrive_and_are_few_chunks_in_the_log() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let code = "import os\nfor _ in range(1_000_000): os.write(1, b'x')";
    let run = sessions.run(&["exec", "one", "--", "python3", "-c", code]);
    assert_eq!((run.code, run.bytes.len()), (0, 1_000_000), "{}", run.stderr);
    let chunks = sessions.run(&["--json", "logs", "one"]).lines().len();
    assert!(chunks <= 100, "{chunks} chunks");
}

#[test]
fn followed_log_names_the_program_of_each_chunk() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let mut follower = Conversation::start(sessions.command(&["--json", "logs", "-f", "one"]));
    for (number, text) in [(0, "first"), (1, "second")] {
        sessions.sh("one", &format!("echo {text}")).text();
        let heard: Value = serde_json::from_str(&follower.hear()).expect("an object");
        let text = format!("{text}\n");
        assert_eq!(heard, json!({ "execution": number, "stream": "stdout", "text": text }));
    }
    sessions.text(&["rm", "-f", "one"]);
    assert_eq!(follower.end(), 0);
}
