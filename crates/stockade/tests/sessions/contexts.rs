//! Contexts: interpreters of a session that keep their state between calls.

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Run, Sessions, ended, finish_with, wait_for};

/// How long a call may take that something ends: the grace after an interrupt, and a slow machine.
const BOUNDED: Duration = Duration::from_secs(20);

impl Sessions {
    /// Runs code in a context.
    #[track_caller]
    fn call(&self, session: &str, context: &str, code: &str, words: &[&str]) -> Run {
        let command = ["--json", "code", "--context", context];
        let words = [&command, words, &[session, "-"]].concat();
        finish_with(self.command(&words), code.as_bytes())
    }

    /// Runs code that must succeed, and returns its report.
    #[track_caller]
    fn called(&self, session: &str, context: &str, code: &str) -> Value {
        let report = self.call(session, context, code, &[]).json();
        assert_eq!((&report["exit_code"], &report["error"]), (&json!(0), &Value::Null), "{report}");
        report
    }

    /// The text of the last expression.
    #[track_caller]
    fn value(&self, session: &str, context: &str, code: &str) -> String {
        let report = self.called(session, context, code);
        main_result(&report)["text"].as_str().expect("it has a text").to_owned()
    }

    fn contexts(&self, session: &str) -> Value {
        self.json(&["context", "ls", session])
    }
}

fn main_result(report: &Value) -> &Value {
    let results = report["results"].as_array().expect("a call has results");
    results.iter().find(|result| result["is_main_result"] == true).expect("it has a value")
}

#[test]
fn context_keeps_an_open_file_a_generator_and_an_imported_module() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let first = "import itertools, os\nf = open('kept.txt', 'w')\nf.write('first,')\n\
                 g = (n * n for n in range(9)); next(g), next(g)\nx = {'a': 1}";
    sessions.called("one", "a", first);
    assert_eq!(sessions.value("one", "a", "next(g)"), "4");
    assert_eq!(
        sessions.value("one", "a", "list(itertools.islice(g, 2)), x"),
        "([9, 16], {'a': 1})"
    );
    sessions.called("one", "a", "f.write('second'); f.close()");
    assert_eq!(sessions.sh("one", "cat kept.txt").text(), "first,second");
}

#[test]
fn stateless_execution_and_another_context_keep_nothing() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    sessions.called("one", "a", "x = 1");
    let code = b"print('x' in globals())\ny = 2\n";
    for _ in 0..2 {
        let run =
            finish_with(sessions.command(&["code", "--language", "python", "one", "-"]), code);
        assert_eq!(run.text(), "False\n");
    }
    assert_eq!(sessions.value("one", "a", "x, 'y' in globals()"), "(1, False)");
    assert_eq!(sessions.value("one", "b", "'x' in globals()"), "False");
    let names: Vec<_> =
        sessions.text(&["context", "ls", "-q", "one"]).lines().map(str::to_owned).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn output_streams_while_a_call_runs_and_values_come_in_order() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let code = "import sys, subprocess\nprint('one')\ndisplay({'text/plain': 'two'}, raw=True)\n\
                subprocess.run(['echo', 'three'])\nprint('error', file=sys.stderr)\n'four'";
    let words = ["code", "--context", "a", "one", "-"];
    let run = finish_with(sessions.command(&words), code.as_bytes());
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("one\ntwo\nthree\nfour\n", "error\n"));
    // The reader has the first line while the call still runs.
    sessions.call("one", "a", "import os, time", &[]);
    let endless = "print('early')\nwhile not os.path.exists('go'): time.sleep(0.01)\n";
    let file = sessions.place.file("e.py", endless);
    let mut child = sessions.start(&["code", "--context", "a", "one", &file]);
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "early\n");
    sessions.sh("one", "touch go").text();
    assert_eq!(ended(child).code, 0);
}

#[test]
fn results_have_mime_data_and_errors_have_name_value_and_traceback() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let class = "class Shown:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n        \
                 return {'text/markdown': '*m*', 'application/vnd.x+json': {'a': 1}}\n    \
                 def _repr_html_(self): return '<b>h</b>'\n    def _repr_svg_(self): return '<svg/>'\n    \
                 def _repr_png_(self): return b'\\x89PNG'\n    def _repr_jpeg_(self): return b'\\xff\\xd8'\n    \
                 def _repr_pdf_(self): return b'%PDF'\n    def _repr_latex_(self): return '$x$'\n    \
                 def _repr_json_(self): return {'k': [1, None]}\n    \
                 def _repr_javascript_(self): return 'f()'\n    def __repr__(self): return 'plain'\nShown()";
    let report = sessions.called("one", "a", class);
    let expected = json!([{
        "text": "plain", "html": "<b>h</b>", "markdown": "*m*", "svg": "<svg/>", "png": "iVBORw==",
        "jpeg": "/9g=", "pdf": "JVBERg==", "latex": "$x$", "json": {"k": [1, null]},
        "javascript": "f()", "extra": {"application/vnd.x+json": {"a": 1}}, "is_main_result": true,
    }]);
    assert_eq!(report["results"], expected);
    assert_eq!(report["execution_count"], 1);
    let report = sessions.called("one", "a", "display(1)\n'two'");
    let expected = json!([
        { "text": "1", "is_main_result": false }, { "text": "two", "is_main_result": true },
    ]);
    assert_eq!(report["results"], expected);
    let run = sessions.call("one", "a", "def f():\n    raise ValueError('no')\nf()", &[]);
    let (report, error) = (run.json(), run.json()["error"].clone());
    assert_eq!((run.code, report["exit_code"].clone()), (1, json!(1)));
    assert_eq!((&error["name"], &error["value"]), (&json!("ValueError"), &json!("no")));
    let trace = error["traceback"].as_str().unwrap();
    assert!(trace.contains("raise ValueError('no')") && trace.contains("<cell 3>"), "{trace}");
    assert!(!trace.contains("stockade_context"), "frames of our script are left out: {trace}");
    assert_eq!((&report["execution_count"], &report["is_alive"]), (&json!(3), &json!(true)));
}

#[test]
fn bundles_are_asked_for_as_in_a_notebook_whatever_arguments_they_take() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    for (number, parameters) in
        ["include, exclude", "include=None, exclude=None", "**options", "", "*, exclude, include"]
            .into_iter()
            .enumerate()
    {
        let code = format!(
            "class Shown{number}:\n    def _repr_mimebundle_(self, {parameters}):\n        \
             return {{'text/html': '<i>{number}</i>'}}, {{'text/html': {{}}}}\nShown{number}()"
        );
        let report = sessions.called("one", "a", &code);
        let html = &main_result(&report)["html"];
        assert_eq!(html, &json!(format!("<i>{number}</i>")), "{parameters}: {report}");
    }
}

/// Opens what belongs to every new process of the same user, and writes down what it got.
const ATTACK: &str = "
import os, subprocess, sys, time
def attack(pid):
    got = []
    for name, flags in (('fd/0', os.O_RDONLY), ('fd/1', os.O_WRONLY), ('mem', os.O_RDONLY)):
        try:
            os.close(os.open(f'/proc/{pid}/{name}', flags | os.O_NONBLOCK))
            got.append(name)
        except OSError:
            pass
    return got
child = subprocess.Popen(['sleep', '600'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
while len(attack(child.pid)) < 3:
    pass
print('works', flush=True)
known = set(os.listdir('/proc')) | {str(os.getpid())}
while not os.path.exists('stop'):
    for pid in os.listdir('/proc'):
        if pid not in known and pid.isdigit():
            tries, got = 0, []
            while not got and os.path.exists(f'/proc/{pid}') and tries < 400:
                got, tries = attack(pid), tries + 1
            known.add(pid)
            try:
                command = open(f'/proc/{pid}/cmdline').read()
            except OSError:
                command = ''
            print(got, pid, command.replace(chr(0), ' ')[:60], flush=True)
print('done', flush=True)
";

#[test]
fn program_that_waits_for_contexts_reaches_no_pipe_and_no_memory_of_one() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    sessions.sh("one", &format!("cat > attack.py <<'END'\n{ATTACK}\nEND")).text();
    let attack = "exec python3 attack.py > seen.txt 2>&1";
    sessions.text(&["exec", "-d", "one", "--", "sh", "-c", attack]);
    let seen = || sessions.sh("one", "cat seen.txt").stdout;
    // Also a proof that the attack works on a process that is not protected.
    wait_for("the attack runs", || seen().contains("works").then_some(()));
    for _ in 0..25 {
        for name in ["a", "b"] {
            sessions.text(&["context", "create", "one", name]);
            assert_eq!(sessions.value("one", name, "6 * 7"), "42");
        }
        sessions.text(&["context", "rm", "one", "a"]);
        sessions.text(&["context", "rm", "one", "b"]);
    }
    sessions.sh("one", "touch stop").text();
    wait_for("the attack has ended", || seen().contains("done").then_some(()));
    let seen = seen();
    let on_contexts: Vec<&str> = seen.lines().filter(|line| line.contains("python")).collect();
    assert!(!on_contexts.is_empty(), "the attack saw contexts: {seen}");
    let got: Vec<_> = on_contexts.iter().filter(|line| !line.starts_with("[] ")).collect();
    assert!(got.is_empty(), "{got:#?}");
}

#[test]
fn programs_stand_still_only_while_a_context_starts() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let count = "n=0; while [ ! -e stop ]; do n=$((n+1)); echo $n > count.txt; done";
    sessions.text(&["exec", "-d", "one", "--", "sh", "-c", count]);
    let counted = || sessions.sh("one", "cat count.txt").stdout.trim().parse::<u64>().ok();
    wait_for("it counts", || counted().filter(|count| *count > 0));
    sessions.text(&["context", "create", "one", "a"]);
    let after = wait_for("it has counted", counted);
    wait_for("it goes on", || counted().filter(|count| *count > after));
    // Also after a start that fails.
    sessions.sh("one", "mkdir empty").text();
    let failed = sessions.run(&["context", "create", "-e", "PYTHONHOME=/nowhere", "one", "b"]);
    assert_ne!(failed.code, 0, "{failed:?}");
    let after = wait_for("it has counted", counted);
    wait_for("it goes on", || counted().filter(|count| *count > after));
    sessions.sh("one", "touch stop").text();
}

#[test]
fn interrupt_ends_a_call_and_keeps_the_state() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    sessions.called("one", "a", "x = 41");
    let command = [
        "--json",
        "code",
        "--context",
        "a",
        "one",
        &sessions.place.file("w.py", "import time\nprint('in', flush=True)\ntime.sleep(600)"),
    ];
    let busy = sessions.start(&command);
    wait_for("the context is busy", || {
        (sessions.contexts("one")[0]["state"] == "busy").then_some(())
    });
    sessions.wait_for_programs("one", 1);
    sessions.text(&["context", "interrupt", "one", "a"]);
    let report = ended(busy).json();
    assert_eq!(report["error"]["name"], "KeyboardInterrupt", "{report}");
    assert_eq!(sessions.value("one", "a", "x + 1"), "42");
    // An interrupt of an idle context does nothing.
    sessions.text(&["context", "interrupt", "one", "a"]);
    assert_eq!(sessions.value("one", "a", "x"), "41");
}

#[test]
fn client_that_is_interrupted_interrupts_its_call() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    sessions.called("one", "a", "x = 41");
    let file = sessions.place.file("w.py", "import time\ntime.sleep(600)");
    let busy = sessions.start(&["code", "--context", "a", "one", &file]);
    sessions.wait_for_programs("one", 1);
    let pid = rustix::process::Pid::from_raw(busy.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let run = ended(busy);
    assert_eq!(run.code, 130, "{run:?}");
    assert_eq!(sessions.value("one", "a", "x"), "41");
}

#[test]
fn interrupt_that_comes_before_the_code_runs_keeps_the_state() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    sessions.called("one", "a", "x = 41");
    // What is sent in front of the code takes longer than the timeout.
    let code = format!("text = '{}'\nimport time\ntime.sleep(600)", "y".repeat(4 << 20));
    for timeout in ["1ms", "2ms", "5ms", "10ms", "20ms", "40ms"] {
        let report = sessions.call("one", "a", &code, &["--timeout", timeout]).json();
        let found = (&report["outcome"], &report["is_alive"]);
        assert_eq!(found, (&json!("timed_out"), &json!(true)), "{timeout}: {report}");
        assert_eq!(sessions.value("one", "a", "x"), "41", "{timeout}");
    }
}

#[test]
fn call_out_of_time_is_interrupted_and_one_that_ignores_it_loses_its_context() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    sessions.called("one", "a", "x = 41");
    let asked = Instant::now();
    let run = sessions.call("one", "a", "import time\ntime.sleep(600)", &["--timeout", "500ms"]);
    let report = run.json();
    assert_eq!((run.code, &report["outcome"]), (124, &json!("timed_out")), "{report}");
    assert_eq!(report["is_alive"], true);
    assert_eq!(sessions.value("one", "a", "x"), "41");
    let deaf = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass";
    let run = sessions.call("one", "a", deaf, &["--timeout", "500ms"]);
    let report = run.json();
    assert!(asked.elapsed() < BOUNDED, "{:?}", asked.elapsed());
    assert_eq!((run.code, &report["is_alive"]), (124, &json!(false)), "{report}");
    assert_eq!(report["error"]["name"], "UnexpectedEndOfExecution");
    restart_works(&sessions, "a");
}

#[test]
fn context_that_is_killed_or_exits_answers_and_can_be_restarted() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    for (code, exit, why) in [
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", 137, "KILL"),
        ("import os\nos._exit(3)", 3, "exited with code 3"),
        ("import ctypes\nctypes.string_at(0)", 139, "SEGV"),
    ] {
        let asked = Instant::now();
        let run = sessions.call("one", "a", code, &[]);
        let report = run.json();
        assert!(asked.elapsed() < BOUNDED, "{:?}", asked.elapsed());
        assert_eq!((run.code, &report["is_alive"]), (exit, &json!(false)), "{report}");
        assert_eq!(report["error"]["name"], "UnexpectedEndOfExecution");
        assert!(report["error"]["value"].as_str().unwrap().contains(why), "{report}");
        assert_eq!(sessions.contexts("one")[0]["state"], "ended");
        restart_works(&sessions, "a");
    }
}

#[test]
fn context_out_of_memory_answers_and_can_be_restarted() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.text(&["create", "--name", "one", "--memory", "128m"]);
    let asked = Instant::now();
    let run =
        sessions.call("one", "a", "x = [bytearray(b'x' * 1_000_000) for _ in range(1000)]", &[]);
    let report = run.json();
    assert!(asked.elapsed() < BOUNDED, "{:?}", asked.elapsed());
    // Without a cgroup the limit is that of each process, and Python raises MemoryError.
    match report["error"]["name"].as_str() {
        Some("MemoryError") => assert_eq!(run.code, 1, "{report}"),
        // The watchdog, which counts the whole sandbox, ends all of it.
        _ if report["outcome"] == "limit_exceeded" => {
            let controls = report["isolation"]["controls"].as_array().unwrap();
            let memory = controls.iter().find(|it| it["control"] == "max_memory_mb").unwrap();
            assert_eq!(memory["precision"], "approximate", "{memory}");
            assert_eq!((run.code, &report["limit"]), (122, &json!("max_memory_mb")));
        }
        _ => {
            // An engine counts such kills late, or only for the whole container.
            let is_late = report["provider"] == "docker" && report["outcome"] == "signaled";
            assert!(run.code == 137, "{report}");
            assert!(is_late || report["outcome"] == "out_of_memory", "{report}");
            restart_works(&sessions, "a");
        }
    }
}

#[test]
fn hundred_megabytes_of_output_answer_in_bounded_time_and_memory() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let asked = Instant::now();
    let code = "import sys\nfor _ in range(100): print('x' * 1_000_000)\nsys.stderr.write('e' * 10)\n'done'";
    let report = sessions.called("one", "a", code);
    assert!(asked.elapsed() < BOUNDED, "{:?}", asked.elapsed());
    let counts = &report["output"]["stdout"];
    let [kept, dropped] = ["kept_bytes", "dropped_bytes"].map(|key| counts[key].as_u64().unwrap());
    assert_eq!((kept, kept + dropped), (1 << 20, 100_000_100), "{counts}");
    assert_eq!(main_result(&report)["text"], "done", "values are not lost behind the output");
    assert_eq!(report["limits_hit"], json!(["max_output_bytes"]));
    // As much as values.
    let report = sessions.called("one", "a", "for _ in range(40): display('v' * 1_000_000)");
    assert_eq!(report["results"].as_array().unwrap().len(), 16, "{}", report["dropped_results"]);
    assert_eq!(report["dropped_results"], 24);
    assert_eq!(sessions.value("one", "a", "'alive'"), "alive");
}

#[test]
fn nothing_inside_can_forge_a_result_of_another_context() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    sessions.called("one", "victim", "import os; pid = os.getpid(); x = 1");
    let pid = sessions.value("one", "victim", "pid");
    // What the attacker does works on a process that is not protected.
    let attack = format!(
        "import os, subprocess\n\
         def attack(pid):\n    done = []\n    \
         for fd in os.listdir('/proc/self/fd') + [str(n) for n in range(260)]:\n        \
         for name in (f'/proc/{{pid}}/fd/{{fd}}', f'/proc/{{pid}}/mem'):\n            \
         try:\n                open(name, 'r+b', buffering=0); done.append(name)\n            \
         except OSError: pass\n    return sorted(set(done))\n\
         import time\n\
         other = subprocess.Popen(['sleep', '60'], stdin=subprocess.PIPE)\n\
         # The kernel makes a process dumpable at the end of execve.\n\
         control = any(attack(other.pid) or time.sleep(0.05) for _ in range(100))\n\
         control, attack({pid})"
    );
    assert_eq!(sessions.value("one", "attacker", &attack), "(True, [])");
    // Text in the form of messages, without the token.
    let forged = "import sys, json\nm = json.dumps({'type': 'result', 'call': 1, 'main': True, 'data': {'text/plain': 'forged'}})\n\
                  for fd in (1, 2):\n    for t in ('0' * 32, 'f' * 32):\n        \
                  p = ('\\x1e' + t + 'o%04x' % len(m) + m).encode()\n        import os; os.write(fd, p)\n'own'";
    let report = sessions.called("one", "attacker", forged);
    assert_eq!(report["results"].as_array().unwrap().len(), 1, "{report}");
    assert_eq!(main_result(&report)["text"], "own");
    assert!(report["stdout"].as_str().unwrap().contains("forged"), "it is output");
    assert_eq!(sessions.value("one", "victim", "x"), "1");
    // A context that sends a malformed message of its own ends itself and no other.
    let broken = "import gc\nc = next(o for o in gc.get_objects() if type(o).__name__ == 'Channel')\n\
                  c.write(c.token + b'o0002{}')";
    let report = sessions.call("one", "attacker", broken, &[]).json();
    assert_eq!(
        (&report["is_alive"], &report["error"]["name"]),
        (&json!(false), &json!("UnexpectedEndOfExecution"))
    );
    assert_eq!(sessions.value("one", "victim", "x"), "1");
}

#[test]
fn calls_of_one_context_wait_and_those_of_several_run_at_the_same_time() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    sessions.called("one", "a", "import os, time; seen = []");
    let waiting = sessions
        .place
        .file("w.py", "while not os.path.exists('go'): time.sleep(0.01)\nseen.append(1)");
    let first = sessions.start(&["code", "--context", "a", "one", &waiting]);
    sessions.wait_for_programs("one", 1);
    let second = sessions.start(&[
        "code",
        "--context",
        "a",
        "one",
        &sessions.place.file("s.py", "seen.append(2)"),
    ]);
    assert_eq!(sessions.value("one", "b", "'other'"), "other");
    sessions.sh("one", "touch go").text();
    assert_eq!((ended(first).code, ended(second).code), (0, 0));
    assert_eq!(sessions.value("one", "a", "seen"), "[1, 2]");
}

#[test]
fn other_languages_and_mistakes_are_refused_by_name() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let script = sessions.place.file("a.js", "1");
    let shell = sessions.place.file("a.sh", "true");
    sessions.refused(
        &["code", "--context", "a", "one", &script],
        "a context cannot run javascript",
        "without a context",
    );
    sessions.refused(
        &["code", "--context", "a", "one", &shell],
        "a context cannot run bash",
        "without a context",
    );
    sessions.refused(
        &["context", "create", "--language", "r", "one"],
        "a context cannot run r",
        "without a context",
    );
    assert_eq!(sessions.contexts("one"), json!([]));
    sessions.refused(&["context", "restart", "one", "none"], "no context none", "context ls");
    sessions.refused(&["context", "rm", "one", "-x"], "", "");
    let code = sessions.place.file("a.py", "1");
    sessions.refused(
        &["code", "--context", "../a", "one", &code],
        "cannot be called",
        "short word",
    );
    assert_eq!(sessions.text(&["context", "create", "one", "a"]), "a\n");
    sessions.refused(&["context", "create", "one", "a"], "has a context a already", "another name");
    assert_eq!(sessions.text(&["context", "rm", "one", "a"]), "a\n");
    assert_eq!(sessions.contexts("one"), json!([]));
}

#[test]
fn rules_of_the_policy_judge_every_call_and_the_record_has_it() {
    let Some(sessions) = Sessions::new() else { return };
    let policy = sessions.place.file(
        "policy.yaml",
        "defaults: {action: allow}\nrules: [{name: no-eval, action: deny, condition: {field: code, operator: contains, value: eval}}]\n",
    );
    sessions.text(&["create", "--name", "one", "--policy", &policy]);
    assert_eq!(sessions.value("one", "a", "1 + 1"), "2");
    let run = sessions.call("one", "a", "eval('1')", &[]);
    assert_eq!((run.code, &run.json()["outcome"]), (126, &json!("denied")), "{run:?}");
    assert_eq!(sessions.value("one", "a", "2 + 2"), "4", "the context stays");
    let record = sessions.json(&["inspect", "one"])[0]["record"].as_str().unwrap().to_owned();
    let events = sessions.json(&["audit", "show", &record]);
    let of = |kind: &str| -> Vec<&Value> {
        events.as_array().unwrap().iter().filter(|event| event["kind"] == kind).collect()
    };
    assert_eq!(of("verdict").len(), 3, "{events}");
    // The interpreter, and two calls.
    assert_eq!(of("execution_started").len(), 3, "{events}");
    let denied =
        of("verdict").into_iter().filter(|event| event["body"]["verdict"] == "deny").count();
    assert_eq!(denied, 1, "{events}");
}

#[test]
fn variables_of_a_call_last_as_long_as_the_call_and_those_of_a_context_stay() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    sessions.text(&["context", "create", "-e", "KEPT=k", "-w", "/tmp", "one", "a"]);
    let code = "import os\nos.environ.get('CALL'), os.environ['KEPT'], os.getcwd()";
    let report = sessions.call("one", "a", code, &["-e", "CALL=c"]).json();
    assert_eq!(main_result(&report)["text"], "('c', 'k', '/tmp')");
    assert_eq!(sessions.value("one", "a", code), "(None, 'k', '/tmp')");
    sessions.text(&["context", "restart", "one", "a"]);
    assert_eq!(sessions.value("one", "a", code), "(None, 'k', '/tmp')", "also after a restart");
}

#[test]
fn idle_context_neither_keeps_its_session_nor_outlives_it() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.text(&["create", "--name", "one", "--idle", "1s"]);
    sessions.called("one", "a", "x = 1");
    let supervisor = sessions.supervisor("one");
    crate::support::wait_for_end(supervisor);
    assert_eq!(sessions.text(&["ls", "-q"]), "");
    sessions.create("two");
    sessions.called("two", "a", "x = 1");
    assert_eq!(sessions.text(&["rm", "two"]), "two\n", "no program runs in it");
}

#[test]
fn results_are_written_to_files() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let out = sessions.place.path().join("out");
    let code = "display({'text/html': '<b>'}, raw=True)\n'text'";
    let words = ["code", "--context", "a", "--results", out.to_str().unwrap(), "one", "-"];
    let run = finish_with(sessions.command(&words), code.as_bytes());
    assert_eq!(run.code, 0, "{run:?}");
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    assert_eq!([read("1.html"), read("2.txt")], ["<b>", "text"]);
}

#[track_caller]
fn restart_works(sessions: &Sessions, context: &str) {
    let run = sessions.call("one", context, "1", &[]);
    assert_eq!(run.code, 125, "an ended context is not replaced silently: {run:?}");
    assert!(run.stdout.contains("context restart"), "{run:?}");
    sessions.text(&["context", "restart", "one", context]);
    assert_eq!(sessions.value("one", context, "'x' in globals()"), "False");
}
