//! Programs of a session: flags, code, outcomes, records.

use std::process::Stdio;

use serde_json::json;

use crate::support::{Sessions, finish_with};

#[test]
fn variables_directory_and_input_reach_a_program() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.text(&["create", "--name", "one", "--env", "SHARED=session"]);
    let script = "echo $SHARED $OWN $(pwd)";
    let words = ["exec", "-e", "OWN=mine", "-w", "/tmp", "one", "--", "sh", "-c", script];
    assert_eq!(sessions.text(&words), "session mine /tmp\n");
    let words = ["exec", "-e", "SHARED=replaced", "one", "--", "sh", "-c", script];
    assert_eq!(sessions.text(&words), "replaced /workspace\n");
    let file = sessions.place.file("variables", "# a comment\nOWN=of the file\n");
    let words = ["exec", "--env-file", &file, "one", "--", "sh", "-c", script];
    assert_eq!(sessions.text(&words), "session of the file /workspace\n");
    let run = finish_with(sessions.command(&["exec", "-i", "one", "--", "cat"]), b"in\n");
    assert_eq!(run.text(), "in\n");
    let run = finish_with(sessions.command(&["exec", "one", "--", "cat"]), b"unread\n");
    assert_eq!(run.text(), "");
}

#[test]
fn code_runs_from_a_file_and_from_standard_input() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let file = sessions.place.file("sum.py", "import sys\nprint(sum(map(int, sys.argv[1:])))\n");
    assert_eq!(sessions.text(&["code", "one", &file, "2", "3"]), "5\n");
    let words = ["code", "one", "--language", "bash", "-"];
    assert_eq!(finish_with(sessions.command(&words), b"echo from $0").code, 0);
    // Without a language, standard input is Python, unless its first line names another.
    let words = ["code", "one", "-"];
    assert_eq!(finish_with(sessions.command(&words), b"print(40 + 2)").text(), "42\n");
    let shell = b"#!/bin/bash\necho $((40 + 3))\n";
    assert_eq!(finish_with(sessions.command(&words), shell).text(), "43\n");
    let long = format!("x = '{}'\nprint(len(x))\n", "y".repeat(3 << 20));
    let words = ["code", "one", "--language", "python", "-"];
    let run = finish_with(sessions.command(&words), long.as_bytes());
    assert_eq!(run.text(), format!("{}\n", 3 << 20));
}

#[test]
fn code_of_one_name_runs_with_other_arguments_each_time() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let file =
        sessions.place.file("arg.py", "import os, sys\nprint(sys.argv[1:], os.getenv('A'))\n");
    // From the second on, an interpreter waits for code with the words of the one before.
    for argument in ["x", "a", "b", "b", "c"] {
        let printed = sessions.text(&["code", "one", &file, argument]);
        assert_eq!(printed, format!("['{argument}'] None\n"));
    }
    for (flags, value) in [(&["-e", "A=1"][..], "1"), (&[], "None"), (&["-e", "A=2"], "2")] {
        let words = [&["code"][..], flags, &["one", &file]].concat();
        assert_eq!(sessions.text(&words), format!("[] {value}\n"));
    }
}

#[test]
fn code_with_variables_of_its_own_runs_after_code_without_them() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let show = b"import os; print(os.environ.get('OWN', 'unset'))";
    // From the second one on, an interpreter waits for the next.
    for own in [None, None, Some("1"), Some("1"), Some("2"), None] {
        let value = format!("OWN={}", own.unwrap_or_default());
        let flags: &[&str] = if own.is_some() { &["-e", &value] } else { &[] };
        let words = [&["code"], flags, &["one", "-"]].concat();
        let run = finish_with(sessions.command(&words), show);
        assert_eq!(run.text(), format!("{}\n", own.unwrap_or("unset")), "{own:?}");
    }
    for (name, flags) in [("a", &[][..]), ("b", &["-e", "OWN=context"]), ("c", &[])] {
        sessions.text(&[&["context", "create"], flags, &["one", name]].concat());
        sessions.text(&["context", "rm", "one", name]);
    }
}

#[test]
fn input_without_bytes_ends() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let file = sessions.place.file("read.py", "import sys\nprint(repr(sys.stdin.read()))\n");
    let words = ["exec", "--timeout", "20s", "-i", "one", "--", "cat"];
    let mut command = sessions.command(&words);
    assert_eq!(stockade_testing::finish(command.stdin(Stdio::null())).text(), "");
    let mut command = sessions.command(&["code", "--timeout", "20s", "-i", "one", &file]);
    assert_eq!(stockade_testing::finish(command.stdin(Stdio::null())).text(), "''\n");
}

#[test]
fn short_report_of_an_execution_omits_the_plan() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let whole = sessions.json(&["exec", "one", "--", "true"]);
    assert!(whole["isolation"].is_object(), "{whole}");
    let short = sessions.run(&["--json=short", "exec", "one", "--", "true"]).json();
    assert_eq!((&short["outcome"], short.get("isolation")), (&whole["outcome"], None));
}

#[test]
fn timeout_ends_one_program_and_keeps_the_session_and_its_files() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let script = "echo before > file; sleep 60";
    let words = ["exec", "--timeout", "300ms", "one", "--", "sh", "-c", script];
    let run = sessions.run(&words);
    assert_eq!(run.code, 124, "{run:?}");
    assert!(run.stderr.contains("stockade: timed out after"), "{}", run.stderr);
    assert_eq!(sessions.sh("one", "cat file").text(), "before\n");
}

#[test]
fn report_as_json_has_the_outcome_and_the_exact_output() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let script = r"printf 'a\377'; echo b >&2; kill -9 $$";
    let run = sessions.run(&["--json", "exec", "one", "--", "sh", "-c", script]);
    let report = run.json();
    assert_eq!((run.code, &report["outcome"]), (137, &json!("signaled")));
    assert_eq!(report["stdout_base64"], "Yf8=");
    assert_eq!(report["stderr"], "b\n");
    assert_eq!(report["output"]["stdout"]["kept_bytes"], 2);
    let run = sessions.run(&["--json", "exec", "one", "--", "/nowhere"]);
    assert_eq!((run.code, &run.json()["outcome"]), (127, &json!("not_started")));
    let detached = sessions.json(&["exec", "-d", "one", "--", "true"]);
    assert!(detached["execution"].is_u64(), "{detached}");
}

#[test]
fn policy_refuses_code_in_a_session_with_its_reason() {
    let Some(sessions) = Sessions::new() else { return };
    let policy = "{rules: [{name: no-x, condition: {field: code, operator: contains, value: xyzzy}, \
                  action: deny, message: not that}], defaults: {action: allow}}";
    let policy = sessions.place.file("policy.yaml", policy);
    sessions.text(&["create", "--name", "one", "--policy", &policy]);
    let words = ["code", "one", "--language", "bash", "-"];
    assert_eq!(finish_with(sessions.command(&words), b"echo fine").text(), "fine\n");
    let denied = finish_with(sessions.command(&words), b"echo xyzzy");
    assert_eq!((denied.code, denied.stdout.as_str()), (126, ""));
    assert!(denied.stderr.contains("not that"), "{}", denied.stderr);
}

#[test]
fn policy_of_a_session_may_come_from_standard_input() {
    let Some(sessions) = Sessions::new() else { return };
    let create = sessions.command(&["create", "--name", "one", "--policy", "-"]);
    assert_eq!(finish_with(create, b"name: from-input").text(), "one\n");
    assert_eq!(sessions.json(&["inspect", "one"])[0]["policy"], "from-input");
}

#[test]
fn record_names_the_execution_of_every_event() {
    let Some(sessions) = Sessions::new() else { return };
    let policy = "{rules: [{name: no-x, condition: {field: code, operator: contains, value: xyzzy}, \
                  action: deny, message: not that}], defaults: {action: allow}}";
    let policy = sessions.place.file("policy.yaml", policy);
    sessions.text(&["create", "--name", "one", "--policy", &policy]);
    // Two programs at the same time, of which the first ends last, and code that is denied.
    let first = sessions.start(&[
        "exec",
        "one",
        "--",
        "sh",
        "-c",
        "while [ ! -e go ]; do sleep 0.01; done",
    ]);
    sessions.wait_for_programs("one", 1);
    assert_eq!(sessions.sh("one", "exit 5").code, 5);
    let words = ["code", "one", "--language", "bash", "-"];
    assert_eq!(finish_with(sessions.command(&words), b"echo xyzzy").code, 126);
    sessions.sh("one", "touch go").text();
    assert_eq!(crate::support::ended(first).code, 0);
    let record = sessions.json(&["inspect", "one"])[0]["record"].clone();
    sessions.text(&["rm", "one"]);
    let shown = crate::support::wait_for("the record is complete", || {
        let run = sessions.run(&["--json", "audit", "show", record.as_str().unwrap()]);
        run.stdout.contains("session_ended").then_some(run.stdout)
    });
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let events = shown["events"].as_array().or(shown.as_array()).expect("events");
    let of = |execution: u64| -> Vec<(&str, Option<i64>)> {
        let own = events.iter().filter(|event| event["body"]["execution"] == execution);
        own.map(|event| (event["kind"].as_str().unwrap(), event["body"]["exit_code"].as_i64()))
            .collect()
    };
    let ran = |code| {
        vec![("verdict", None), ("execution_started", None), ("execution_ended", Some(code))]
    };
    assert_eq!((of(0), of(1), of(3)), (ran(0), ran(5), ran(0)));
    assert_eq!(of(2), [("verdict", None)], "denied code never starts");
    let last = events.last().unwrap();
    assert_eq!(
        (&last["kind"], &last["body"]["outcome"]),
        (&json!("session_ended"), &json!("removed"))
    );
    assert_eq!(sessions.run(&["audit", "verify", record.as_str().unwrap()]).code, 0);
}
