//! Contexts: instances of a session that stay between calls.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_testing::{Run, finish, finish_with, wait_for};

use crate::sessions::{Session, refused};
use crate::support::{directory, is_machine, named, wall};
use crate::tools::TOOLS;

/// How long a call may take that something ends, on a slow machine.
const BOUNDED: Duration = Duration::from_secs(20);

/// The tests of the wall under test: the micro-VM has no contexts.
pub(crate) fn tests() -> Vec<libtest_mimic::Trial> {
    if is_machine() { refusing::tests() } else { keeping::tests() }
}

mod refusing {
    use super::*;

    named![context_is_refused_by_name_with_the_reason];

    fn context_is_refused_by_name_with_the_reason() {
        let session = Session::new();
        let arguments = ["code", "--language", "python", "--context", "first", &session.name, "-"];
        let run = finish_with(session.command(&arguments), b"x = 1");
        let reason = format!("the {} wall has no contexts: each execution gets a new", wall());
        refused(&run, &[&reason, "--provider native"]);
        let listed = finish(session.command(&["context", "ls", &session.name]));
        assert!(!listed.text().contains("first"), "{listed:?}");
        assert_eq!(session.run("print('still here')").text(), "still here\n");
    }
}

impl Session {
    /// Runs code in a context.
    fn call(&self, context: &str, code: &str, words: &[&str]) -> Run {
        let command = ["--json", "code", "--context", context];
        let words = [&command, words, &[&self.name, "-"]].concat();
        finish_with(self.command(&words), code.as_bytes())
    }

    /// Runs code that must succeed, and returns its report.
    #[track_caller]
    fn called(&self, context: &str, code: &str) -> Value {
        let report = self.call(context, code, &[]).json();
        assert_eq!((&report["exit_code"], &report["error"]), (&json!(0), &Value::Null), "{report}");
        report
    }

    /// The text of the last expression.
    #[track_caller]
    fn value(&self, context: &str, code: &str) -> String {
        let report = self.called(context, code);
        main_result(&report)["text"].as_str().expect("it has a text").to_owned()
    }

    fn contexts(&self) -> Value {
        finish(self.command(&["--json", "context", "ls", &self.name])).json()
    }

    fn state_of(&self, context: &str) -> Option<String> {
        let contexts = self.contexts();
        let found = contexts.as_array().expect("a list").iter().find(|it| it["name"] == context)?;
        Some(found["state"].as_str().expect("a word").to_owned())
    }

    /// Starts a call that goes on, and waits until its context is busy.
    fn start(&self, context: &str, code: &str) -> Child {
        let file = self.home.path().join(format!("{context}.py"));
        std::fs::write(&file, code).expect("new");
        let file = file.to_str().expect("text");
        let mut command = self.command(&["--json", "code", "--context", context, &self.name, file]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        wait_for("the context is busy", || {
            (self.state_of(context).as_deref() == Some("busy")).then_some(())
        });
        child
    }

    /// Asserts that an ended context refuses calls until it is restarted, and then has no variables.
    #[track_caller]
    fn restart_works(&self, context: &str) {
        assert_eq!(self.state_of(context).as_deref(), Some("ended"));
        let run = self.call(context, "1", &[]);
        assert_eq!(run.code, 125, "an ended context is not replaced silently: {run:?}");
        assert!(run.stdout.contains("context restart"), "{run:?}");
        self.text(&["context", "restart", &self.name, context]);
        assert_eq!(self.value(context, "'x' in globals()"), "False");
    }
}

fn main_result(report: &Value) -> &Value {
    let results = report["results"].as_array().expect("a call has results");
    results.iter().find(|result| result["is_main_result"] == true).expect("it has a value")
}

/// Asserts that a call ended together with its context.
#[track_caller]
fn ended_with(report: &Value, why: &str) {
    assert_eq!(report["is_alive"], false, "{report}");
    assert_eq!(report["error"]["name"], "UnexpectedEndOfExecution", "{report}");
    let value = report["error"]["value"].as_str().expect("a text");
    assert!(value.contains(why), "no {why:?} in {report}");
}

fn json_of(child: Child) -> Value {
    let output = child.wait_with_output().expect("it ends");
    serde_json::from_slice(&output.stdout).expect("a report")
}

mod keeping {
    use super::*;

    named![
        context_keeps_variables_modules_an_open_file_and_a_generator,
        execution_without_a_context_and_other_contexts_see_no_variable,
        output_streams_while_a_call_runs_and_values_come_in_order,
        results_have_mime_data_and_errors_have_name_value_and_traceback,
        input_ends_at_once_and_await_works_outside_functions,
        tools_and_requests_work_in_a_context,
        interrupt_ends_the_context_until_it_is_restarted,
        call_out_of_time_ends_its_context_in_bounded_time,
        client_that_leaves_ends_the_context_of_its_call,
        context_that_traps_or_exits_answers_and_can_be_restarted,
        memory_error_of_a_call_keeps_the_context,
        context_that_waited_gets_no_more_than_its_share_of_a_processor,
        hundred_megabytes_of_output_answer_in_bounded_time_and_memory,
        context_forges_no_result_of_another,
        contexts_beyond_the_memory_of_the_session_are_refused_with_a_remedy,
        paused_session_refuses_calls_and_keeps_the_state,
        restored_session_has_no_interpreter_of_before,
    ];

    fn context_keeps_variables_modules_an_open_file_and_a_generator() {
        let session = Session::new();
        let first = "import itertools, os\nf = open('kept.txt', 'w')\nf.write('first,')\n\
                     g = (n * n for n in range(9)); next(g), next(g)\nx = {'a': 1}";
        session.called("a", first);
        assert_eq!(session.value("a", "next(g)"), "4");
        let code = "list(itertools.islice(g, 2)), x";
        assert_eq!(session.value("a", code), "([9, 16], {'a': 1})");
        session.called("a", "f.write('second'); f.close()");
        assert_eq!(session.run("print(open('kept.txt').read())").text(), "first,second\n");
        let report = session.call("a", "import os\nos.environ['CALL']", &["-e", "CALL=c"]).json();
        assert_eq!(main_result(&report)["text"], "c");
        assert_eq!(session.value("a", "'CALL' in os.environ"), "False");
    }

    fn execution_without_a_context_and_other_contexts_see_no_variable() {
        let session = Session::new();
        session.called("a", "import builtins\nx = builtins.leak = 1");
        let code = "import builtins\nprint('x' in globals(), hasattr(builtins, 'leak'))\ny = 2";
        for _ in 0..2 {
            assert_eq!(session.run(code).text(), "False False\n");
        }
        assert_eq!(session.value("a", "x, 'y' in globals()"), "(1, False)");
        let code = "import builtins\n'x' in globals(), hasattr(builtins, 'leak')";
        assert_eq!(session.value("b", code), "(False, False)");
        let names = session.text(&["context", "ls", "-q", &session.name]);
        assert_eq!(names, "a\nb\n");
        session.text(&["context", "rm", &session.name, "a"]);
        assert_eq!(session.state_of("a"), None);
        assert_eq!(session.value("b", "1"), "1");
    }

    fn output_streams_while_a_call_runs_and_values_come_in_order() {
        let session = Session::new();
        let code = "import os, sys, time\nprint('one')\ndisplay({'text/plain': 'two'}, raw=True)\n\
                    print('three')\nprint('error', file=sys.stderr)\n'four'";
        let words = ["code", "--context", "a", &session.name, "-"];
        let run = finish_with(session.command(&words), code.as_bytes());
        let found = (run.stdout.as_str(), run.stderr.as_str());
        assert_eq!(found, ("one\ntwo\nthree\nfour\n", "error\n"), "{run:?}");
        // The reader has the first line while the call still runs.
        let file = session.home.path().join("early.py");
        let endless = "print('early')\nwhile not os.path.exists('go'): time.sleep(0.01)\n";
        std::fs::write(&file, endless).expect("new");
        let file = file.to_str().expect("text");
        let mut command = session.command(&["code", "--context", "a", &session.name, file]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("starts");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("text");
        assert_eq!(line, "early\n");
        session.run("open('go', 'w')").text();
        assert!(child.wait().expect("it ends").success());
    }

    fn results_have_mime_data_and_errors_have_name_value_and_traceback() {
        let session = Session::new();
        let class = "class Shown:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n        \
                     return {'text/markdown': '*m*', 'application/vnd.x+json': {'a': 1}}\n    \
                     def _repr_html_(self): return '<b>h</b>'\n    \
                     def _repr_png_(self): return b'\\x89PNG'\n    \
                     def _repr_json_(self): return {'k': [1, None]}\n    \
                     def __repr__(self): return 'plain'\nShown()";
        let report = session.called("a", class);
        let expected = json!([{
            "text": "plain", "html": "<b>h</b>", "markdown": "*m*", "png": "iVBORw==",
            "json": {"k": [1, null]}, "extra": {"application/vnd.x+json": {"a": 1}},
            "is_main_result": true,
        }]);
        assert_eq!((&report["results"], &report["execution_count"]), (&expected, &json!(1)));
        let report = session.called("a", "display(1)\n'two'");
        let expected = json!([
            { "text": "1", "is_main_result": false }, { "text": "two", "is_main_result": true },
        ]);
        assert_eq!(report["results"], expected);
        // More than one piece of a message.
        let report = session.called("a", "'l' * 100_000");
        assert_eq!(main_result(&report)["text"].as_str().map(str::len), Some(100_000));
        let run = session.call("a", "def f():\n    raise ValueError('no')\nf()", &[]);
        let (report, error) = (run.json(), run.json()["error"].clone());
        assert_eq!((run.code, report["exit_code"].clone()), (1, json!(1)));
        assert_eq!((&error["name"], &error["value"]), (&json!("ValueError"), &json!("no")));
        let trace = error["traceback"].as_str().expect("a text");
        assert!(trace.contains("raise ValueError('no')") && trace.contains("<cell 4>"), "{trace}");
        assert!(!trace.contains("stockade_"), "frames of our script are left out: {trace}");
        let found = (&report["execution_count"], &report["is_alive"]);
        assert_eq!(found, (&json!(4), &json!(true)));
        let report = session.call("a", "import ctypes", &[]).json();
        let trace = report["error"]["traceback"].as_str().expect("a text");
        assert!(trace.contains("the interpreter behind this wall has no"), "{trace}");
        let report = session.call("a", "import sys; sys.exit(3)", &[]).json();
        let found = (&report["error"]["name"], &report["is_alive"]);
        assert_eq!(found, (&json!("SystemExit"), &json!(true)));
    }

    fn input_ends_at_once_and_await_works_outside_functions() {
        let session = Session::new();
        let report = session.call("a", "input()", &[]).json();
        assert_eq!(report["error"]["name"], "EOFError", "{report}");
        assert_eq!(
            session.value("a", "import sys\nsys.stdin.read(), sys.stdin.buffer.read()"),
            "('', b'')"
        );
        let code = "import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return 7\nawait f()";
        assert_eq!(session.value("a", code), "7");
    }

    fn tools_and_requests_work_in_a_context() {
        let (_scratch, path) = directory(&[("t.yaml", TOOLS)]);
        let tools = path.join("t.yaml");
        let session = Session::with(&["--tools", tools.to_str().expect("text")]);
        assert_eq!(session.value("a", "double(21), call_tool('double', number=1)"), "(42, 2)");
        let report = session.call("a", "http_get('http://example.test/')", &[]).json();
        assert_eq!(report["error"]["name"], "HTTPDenied", "{report}");
        assert_eq!(report["denials"][0]["control"], "network_hosts", "{report}");
        assert_eq!(session.value("a", "double(4)"), "8");
    }

    fn interrupt_ends_the_context_until_it_is_restarted() {
        let session = Session::new();
        session.called("a", "x = 41");
        let asked = Instant::now();
        let busy = session.start("a", "while True: pass");
        session.text(&["context", "interrupt", &session.name, "a"]);
        ended_with(&json_of(busy), "an interrupt ends it on this wall");
        assert!(asked.elapsed() < BOUNDED, "{:?}", asked.elapsed());
        session.restart_works("a");
        // An interrupt of an idle context does nothing.
        session.called("a", "x = 1");
        session.text(&["context", "interrupt", &session.name, "a"]);
        assert_eq!(session.value("a", "x"), "1");
    }

    fn call_out_of_time_ends_its_context_in_bounded_time() {
        let session = Session::new();
        for code in ["while True: pass", "import time; time.sleep(600)"] {
            session.called("a", "x = 41");
            session.called("b", "x = 42");
            let asked = Instant::now();
            let run = session.call("a", code, &["--timeout", "500ms"]);
            let report = run.json();
            assert!(asked.elapsed() < BOUNDED, "{:?}", asked.elapsed());
            assert_eq!((run.code, &report["outcome"]), (124, &json!("timed_out")), "{report}");
            ended_with(&report, "its call ran out of time");
            assert_eq!(session.value("b", "x"), "42", "the other context goes on");
            session.restart_works("a");
        }
    }

    fn client_that_leaves_ends_the_context_of_its_call() {
        let session = Session::new();
        session.called("a", "x = 41");
        let mut busy = session.start("a", "while True: pass");
        busy.kill().expect("it runs");
        busy.wait().expect("it has ended");
        wait_for("the context ends", || {
            (session.state_of("a").as_deref() == Some("ended")).then_some(())
        });
        session.restart_works("a");
    }

    fn context_that_traps_or_exits_answers_and_can_be_restarted() {
        let session = Session::new();
        for (code, exit, why) in [
            ("import os\nos.abort()", 134, "it was trapped"),
            // WASI passes on whether a program failed, and not its code.
            ("import os\nos._exit(3)", 1, "exited with code 1"),
        ] {
            session.called("a", "x = 1");
            let asked = Instant::now();
            let run = session.call("a", code, &[]);
            assert!(asked.elapsed() < BOUNDED, "{:?}", asked.elapsed());
            assert_eq!(run.code, exit, "{run:?}");
            ended_with(&run.json(), why);
            session.restart_works("a");
        }
        // Deep recursion is an exception, and no end.
        let report = session.call("a", "def f(): f()\nf()", &[]).json();
        let found = (&report["error"]["name"], &report["is_alive"]);
        assert_eq!(found, (&json!("RecursionError"), &json!(true)), "{report}");
    }

    fn memory_error_of_a_call_keeps_the_context() {
        let session = Session::with(&["--memory", "128m"]);
        session.called("a", "x = 41");
        let asked = Instant::now();
        let code = "y = [bytearray(b'x' * 1_000_000) for _ in range(1000)]";
        let report = session.call("a", code, &[]).json();
        assert!(asked.elapsed() < BOUNDED, "{:?}", asked.elapsed());
        let found = (&report["error"]["name"], &report["is_alive"]);
        assert_eq!(found, (&json!("MemoryError"), &json!(true)), "{report}");
        assert_eq!(report["limits_hit"], json!(["max_memory_mb"]));
        assert_eq!(session.value("a", "x"), "41");
    }

    fn context_that_waited_gets_no_more_than_its_share_of_a_processor() {
        let session = Session::with(&["--cpus", "0.25"]);
        let code = "import time\ntime.sleep(3)\nend = time.monotonic() + 1\n\
                    while time.monotonic() < end: pass";
        let report = session.called("a", code);
        let used = report["usage"]["cpu_ms"].as_u64().expect("it is counted");
        // With a share saved while it waited it is a second on an idle machine.
        assert!((1..=600).contains(&used), "{report:#}");
    }

    fn hundred_megabytes_of_output_answer_in_bounded_time_and_memory() {
        let session = Session::new();
        let asked = Instant::now();
        let code = "import sys\nfor _ in range(100): print('x' * 1_000_000)\n\
                    sys.stderr.write('e' * 10)\n'done'";
        let report = session.called("a", code);
        assert!(asked.elapsed() < BOUNDED, "{:?}", asked.elapsed());
        let counts = &report["output"]["stdout"];
        let [kept, dropped] =
            ["kept_bytes", "dropped_bytes"].map(|key| counts[key].as_u64().expect("a count"));
        assert_eq!((kept, kept + dropped), (1 << 20, 100_000_100), "{counts}");
        assert_eq!(main_result(&report)["text"], "done", "values are not lost behind the output");
        assert_eq!(report["limits_hit"], json!(["max_output_bytes"]));
        let report = session.called("a", "for _ in range(40): display('v' * 1_000_000)");
        let shown = report["results"].as_array().map(Vec::len);
        assert_eq!((shown, &report["dropped_results"]), (Some(16), &json!(24)));
        assert_eq!(session.value("a", "'alive'"), "alive");
    }

    fn context_forges_no_result_of_another() {
        let session = Session::new();
        session.called("victim", "x = 1");
        // Text in the form of messages, with tokens of others: those of an execution, and its own.
        let find =
            "import gc\nc = next(o for o in gc.get_objects() if type(o).__name__ == 'Channel')\n";
        let own = session.value("attacker", &format!("{find}c.token.hex()"));
        let forge = format!(
            "import json, os\nm = json.dumps({{'type': 'result', 'call': 1, 'main': True, \
             'data': {{'text/plain': 'forged'}}}}).encode()\n\
             for token in (bytes.fromhex('{own}'), b'\\x1e' + b'0' * 32):\n    \
             for fd in (1, 2):\n        os.write(fd, token + b'o%04x' % len(m) + m)\n'own'"
        );
        let report = session.called("other", &forge);
        assert_eq!(report["results"].as_array().map(Vec::len), Some(1), "{report}");
        assert_eq!(main_result(&report)["text"], "own");
        assert!(report["stdout"].as_str().expect("text").contains("forged"), "it is output");
        let run = session.run(&forge);
        assert!(run.stdout.contains("forged"), "{run:?}");
        assert_eq!(session.value("victim", "x"), "1");
        // A malformed message of a context ends that one alone.
        let broken = format!("{find}c.write(c.token + b'o0002{{}}')");
        ended_with(&session.call("attacker", &broken, &[]).json(), "a malformed message");
        assert_eq!(session.value("victim", "x"), "1");
        assert_eq!(session.value("other", "1"), "1");
    }

    fn contexts_beyond_the_memory_of_the_session_are_refused_with_a_remedy() {
        let session = Session::with(&["--memory", "128m"]);
        let create =
            |name: &str| finish(session.command(&["context", "create", &session.name, name]));
        let names: Vec<String> = (0..8).map(|n| format!("c{n}")).collect();
        let (last, run) = names
            .iter()
            .map(|name| (name, create(name)))
            .find(|(_, run)| run.code != 0)
            .expect("eight interpreters have more than 128 MiB");
        assert_ne!(last, "c0", "one context has room: {run:?}");
        assert!(run.stderr.contains("no memory is left for one more interpreter"), "{run:?}");
        assert!(run.stderr.contains("has memory for one more interpreter"), "{run:?}");
        assert_eq!(session.value("c0", "1"), "1");
        session.text(&["context", "rm", &session.name, "c0"]);
        assert_eq!(create(last).code, 0, "its memory is free again");
    }

    fn paused_session_refuses_calls_and_keeps_the_state() {
        let session = Session::new();
        session.called("a", "x = 41");
        session.text(&["pause", &session.name]);
        let words = ["code", "--context", "a", &session.name, "-"];
        let run = finish_with(session.command(&words), b"x");
        refused(&run, &["the session is paused", "stockade resume"]);
        session.text(&["resume", &session.name]);
        assert_eq!(session.value("a", "x"), "41");
    }

    fn restored_session_has_no_interpreter_of_before() {
        let session = Session::new();
        session.called("a", "x = 41; open('kept', 'w').write('kept')");
        session.text(&["checkpoint", &session.name, "first"]);
        assert_eq!(session.value("a", "x"), "41", "a checkpoint ends no context");
        session.text(&["restore", "--force", &session.name, "first"]);
        assert_eq!(session.value("b", "open('kept').read()"), "kept");
        session.restart_works("a");
    }
}
