//! What one of two programs that run at the same time causes is in the report of that one.

use std::thread::{self, JoinHandle};

use serde_json::{Value, json};

use crate::support::{Run, Sessions, finish};

/// The beginning of each program: it goes on when both run.
const TOGETHER: &str = "\
import os, socket, sys, time, urllib.error, urllib.request
own, other = sys.argv[1:]
def wait(name):
    while not os.path.exists(name):
        time.sleep(0.01)
def meet(step):
    open(f'{own}-{step}', 'w').close()
    wait(f'{other}-{step}')
meet('runs')
";

/// Asks for a host that is not allowed, and for a port that is not allowed of a host that is.
const DENIED: &str = "\
try:
    urllib.request.urlopen(f'http://{own}.example/')
except urllib.error.HTTPError as error:
    assert error.code == 403, error
else:
    raise SystemExit('it was answered')
try:
    socket.create_connection(('allowed.example', {'a': 8001, 'b': 8002}[own])).recv(1)
except OSError:
    pass
meet('asked')
";

/// Calls a tool that is not allowed, from a process that is left by its parent.
const CALLED: &str = "\
import json, subprocess
call = 'import json, socket, sys\\n' \
    'broker = socket.socket(socket.AF_UNIX)\\n' \
    'broker.connect(sys.argv[1])\\n' \
    'broker.sendall(json.dumps({\"id\": 1, \"call\": sys.argv[2]}).encode() + b\"\\\\n\")\\n' \
    'answer = json.loads(broker.makefile().readline())\\n' \
    'open(sys.argv[3], \"w\").write(answer[\"error\"][\"code\"])\\n'
words = [sys.executable, '-c', call, os.environ['STOCKADE_TOOLS_SOCKET'], f'tool_{own}', f'{own}-code']
if os.fork() == 0:
    subprocess.Popen(words)
    os._exit(0)
os.wait()
wait(f'{own}-code')
meet('called')
";

impl Sessions {
    /// Starts the program `own`, which meets `other`.
    fn meets(&self, own: &str, other: &str, code: &str) -> JoinHandle<Run> {
        let code = format!("{TOGETHER}{code}");
        let words = ["--json", "exec", "--timeout", "60s", "one", "--", "python3", "-c", &code];
        let command = self.command(&[&words[..], &[own, other]].concat());
        thread::spawn(move || finish(command))
    }
}

fn report(program: JoinHandle<Run>) -> Value {
    serde_json::from_str(&program.join().expect("it is finished").stdout).expect("it is JSON")
}

/// What the denials of a list are about, each once.
fn targets(denials: &[Value]) -> Vec<&str> {
    let mut found: Vec<&str> = denials.iter().filter_map(|it| it["target"].as_str()).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn denied_host_is_reported_for_the_program_that_asked_for_it() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.text(&["create", "--name", "one", "--allow-host", "allowed.example"]);
    let (one, two) = (sessions.meets("a", "b", DENIED), sessions.meets("b", "a", DENIED));
    let (one, two) = (report(one), report(two));
    for (found, own, port) in [(&one, "a", 8001), (&two, "b", 8002)] {
        assert_eq!(
            (&found["outcome"], &found["exit_code"]),
            (&json!("exited"), &json!(0)),
            "{found}"
        );
        let denials = found["denials"].as_array().expect("a report has denials");
        let expected = [format!("allowed.example:{port}"), format!("{own}.example:80")];
        let mut expected = expected.each_ref().map(String::as_str);
        expected.sort_unstable();
        assert_eq!(targets(denials), expected, "{found}");
    }
}

#[test]
fn denied_tool_call_is_reported_for_the_program_that_made_it() {
    let Some(sessions) = Sessions::new() else { return };
    let schema = "input_schema: {type: object}";
    let tools: String = ["allowed", "tool_a", "tool_b"]
        .map(|name| format!("  - {{name: {name}, command: [cat], {schema}}}\n"))
        .concat();
    let tools = sessions.place.file("tools.yaml", format!("tools:\n{tools}"));
    let policy = "version: \"2\"\ntool_allowlist: [allowed]\n";
    let policy = sessions.place.file("policy.yaml", policy);
    sessions.text(&["create", "--name", "one", "--policy", &policy, "--tools", &tools]);
    let (one, two) = (sessions.meets("a", "b", CALLED), sessions.meets("b", "a", CALLED));
    for (found, tool) in [(report(one), "tool_a"), (report(two), "tool_b")] {
        assert_eq!(
            (&found["outcome"], &found["exit_code"]),
            (&json!("exited"), &json!(0)),
            "{found}"
        );
        assert_eq!(targets(found["denials"].as_array().expect("denials")), [tool], "{found}");
    }
}

#[test]
fn memory_kill_and_usage_are_reported_for_the_program_that_caused_them() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.text(&["create", "--name", "one", "--memory", "256m"]);
    let grows = sessions.meets("a", "b", "x = bytearray(b'x') * 1_000_000_000\n");
    let waits = sessions.meets("b", "a", "y = bytearray(b'y') * 1_000_000\nwait('over')\n");
    let grows = report(grows);
    sessions.sh("one", "touch over").text();
    let waits = report(waits);
    assert_eq!((&waits["outcome"], &waits["exit_code"]), (&json!("exited"), &json!(0)), "{waits}");
    assert_eq!(waits["limits_hit"], json!([]), "{waits}");
    let peak = |report: &Value| report["usage"]["memory_peak_bytes"].as_u64();
    let is_per_program = peak(&waits).is_some();
    if is_per_program {
        assert!(peak(&waits) < Some(100 << 20), "{waits}");
        assert_eq!(grows["outcome"], "out_of_memory", "{grows}");
    } else {
        // Without a cgroup the limit is that of each process, and Python raises MemoryError.
        assert_eq!(
            (&grows["outcome"], &grows["exit_code"]),
            (&json!("exited"), &json!(1)),
            "{grows}"
        );
    }
}
