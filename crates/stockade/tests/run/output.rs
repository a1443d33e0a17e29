//! Kept and dropped output.

use serde_json::json;

use crate::support::{
    Conversation, alone, binary, command, finish, hits, outside, report, walls_can_be_built,
};

#[test]
fn endless_output_is_counted_and_uses_bounded_memory() {
    if !walls_can_be_built() {
        return;
    }
    let _quiet = alone();
    // Prints the peak memory of Stockade and of the processes that it reaped.
    let measure = "import json, os, sys
read, write = os.pipe()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ,
    file_actions=[(os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_CLOSE, read)])
os.close(write)
with os.fdopen(read) as pipe:
    report = json.load(pipe)
_, status, usage = os.wait4(pid, 0)
del report['stdout']
print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_maxrss, report]))";
    let binary = binary();
    let words = [
        "python3".as_ref(),
        "-c".as_ref(),
        measure.as_ref(),
        binary.as_os_str(),
        "run".as_ref(),
        "--json".as_ref(),
        "--timeout".as_ref(),
        "2s".as_ref(),
        "--".as_ref(),
        "yes".as_ref(),
    ];
    let answer = outside(&words).json();
    let (code, kilobytes, report) = (&answer[0], answer[1].as_u64().unwrap(), &answer[2]);
    assert_eq!((code, &report["outcome"]), (&json!(124), &json!("timed_out")));
    let count = |key: &str| report["output"]["stdout"][key].as_u64().unwrap();
    assert_eq!(count("kept_bytes"), 1 << 20);
    assert!(count("dropped_bytes") > 1 << 20, "{report}");
    assert!(hits(report, "max_output_bytes"), "{report}");
    assert!(kilobytes < 64 << 10, "Stockade took {kilobytes} kB");
}

#[test]
fn kept_and_dropped_bytes_add_up_to_what_was_written() {
    if !walls_can_be_built() {
        return;
    }
    let program = "import sys
sys.stdout.buffer.write(b'o' * 3_000_000); sys.stdout.flush()
sys.stderr.buffer.write(b'e' * 2_000_000)";
    let (code, report) = report(&["--max-output", "2m", "--", "python3", "-c", program]);
    assert_eq!(code, 0, "{report}");
    let count = |stream: &str, key: &str| report["output"][stream][key].as_u64().unwrap();
    assert_eq!(count("stdout", "kept_bytes") + count("stdout", "dropped_bytes"), 3_000_000);
    assert_eq!(count("stderr", "kept_bytes") + count("stderr", "dropped_bytes"), 2_000_000);
    assert_eq!(count("stdout", "kept_bytes") + count("stderr", "kept_bytes"), 2 << 20);
    let kept = usize::try_from(count("stdout", "kept_bytes")).unwrap();
    assert_eq!(report["stdout"].as_str().unwrap(), "o".repeat(kept));
}

#[test]
fn short_report_has_everything_except_the_plan() {
    if !walls_can_be_built() {
        return;
    }
    let asked = |flag: &str| finish(command(&[flag, "--", "echo", "1"])).json();
    let (full, short) = (asked("--json"), asked("--json=short"));
    assert!(full["isolation"]["controls"].is_array(), "{full}");
    let mut names: Vec<&String> = full.as_object().unwrap().keys().collect();
    names.retain(|name| *name != "isolation");
    let short_names: Vec<&String> = short.as_object().unwrap().keys().collect();
    assert_eq!(short_names, names);
    assert_eq!((&short["stdout"], &short["outcome"]), (&"1\n".into(), &"exited".into()));
}

#[test]
fn json_lines_come_while_the_program_runs() {
    if !walls_can_be_built() {
        return;
    }
    let script = "print('asked', flush=True)\nprint('heard', input())\n";
    let mut run = Conversation::start(command(&["--json-lines", "--", "python3", "-c", script]));
    let mut next = || -> serde_json::Value { serde_json::from_str(&run.hear()).unwrap() };
    assert_eq!(next()["event"], "start");
    assert_eq!(next()["text"], "asked\n");
    run.say("word");
    let line: serde_json::Value = serde_json::from_str(&run.hear()).unwrap();
    assert_eq!(line["text"], "heard word\n");
    assert_eq!(run.end(), 0);
}

#[test]
fn json_lines_have_start_output_denial_and_end_in_order() {
    if !walls_can_be_built() {
        return;
    }
    let script = "import sys, time, urllib.request\nprint('one', flush=True)\n\
                  print('two', file=sys.stderr, flush=True)\ntry:\n    \
                  urllib.request.urlopen('http://other.example.org/', timeout=5)\n\
                  except OSError: pass\nprint('ü', flush=True)\nsys.exit(3)\n";
    let flags = ["--json-lines", "--allow-host", "example.org", "--", "python3", "-c", script];
    let run = finish(command(&flags));
    assert_eq!(run.code, 3, "{run:?}");
    let events: Vec<serde_json::Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!((names[0], names[names.len() - 1]), ("start", "end"), "{names:?}");
    assert!(events[0]["session"].is_string(), "{}", events[0]);
    let text = |stream: &str| -> String {
        let own = events.iter().filter(|event| event["stream"] == stream);
        own.map(|event| event["text"].as_str().unwrap()).collect()
    };
    assert_eq!((text("stdout").as_str(), text("stderr").as_str()), ("one\nü\n", "two\n"));
    let denied = events.iter().find(|event| event["event"] == "denial").unwrap();
    assert_eq!(denied["denial"]["target"], "other.example.org:80");
    let end = &events[events.len() - 1];
    assert_eq!((&end["exit_code"], &end["stdout"]), (&3.into(), &serde_json::Value::Null));
    // An error of Stockade itself is one line too.
    let run = finish(command(&["--json-lines", "--memory", "1m", "--", "true"]));
    assert_eq!((run.code, run.stdout.lines().count()), (125, 1), "{run:?}");
    assert_eq!(run.json()["event"], "error");
}
