//! Running programs: output, exit codes, limits, tools, refusals.

use std::fs;

use libtest_mimic::Trial;
use stockade_testing::{engine, examples};

use crate::support::{command, docker, finish, finish_with, named, report, run, stockade, tests};

tests![
    hello_runs_as_nobody_in_an_empty_workspace,
    exit_code_and_signal_are_the_programs,
    output_input_and_errors_are_separate_and_complete,
    code_of_ten_megabytes_runs,
    program_is_killed_at_its_timeout,
    program_out_of_memory_is_reported_as_such,
    fork_bomb_does_not_cost_the_session,
    disk_and_open_files_are_limited,
    container_has_no_rights_and_no_way_to_get_some,
    tool_is_called_by_command_and_by_function,
    report_names_the_kernel_that_ran,
];

/// Tests that do not depend on a runtime.
pub(crate) fn once() -> Vec<Trial> {
    named![
        auto_takes_the_strongest_that_starts,
        runtime_that_cannot_start_is_refused,
        missing_image_is_named_with_a_remedy,
        floor_above_the_runtime_is_refused,
        engine_that_is_down_is_a_short_error,
        plan_and_doctor_know_the_wall,
    ]
}

fn hello_runs_as_nobody_in_an_empty_workspace(runtime: &'static str) {
    let mut command = stockade();
    command.args(["run", "--provider", "docker", "--runtime", runtime]);
    command.arg(examples().join("hello.py"));
    let run = finish(command);
    assert!(run.text().contains("of user 65534, in /workspace"), "{run:?}");
}

fn exit_code_and_signal_are_the_programs(runtime: &'static str) {
    assert_eq!(run(runtime, &[], &["sh", "-c", "exit 42"]).code, 42);
    assert_eq!(run(runtime, &[], &["/nonexistent"]).code, 127);
    let report = report(runtime, &[], &["sh", "-c", "kill -TERM $$"]);
    assert_eq!((&report["outcome"], &report["signal"]["number"]), (&"signaled".into(), &15.into()));
}

fn output_input_and_errors_are_separate_and_complete(runtime: &'static str) {
    let input = vec![b'x'; 700_000];
    let script = "import sys; d = sys.stdin.buffer.read(); sys.stdout.buffer.write(d); \
                  sys.stderr.write(str(len(d)))";
    let run = finish_with(command(runtime, &[], &["python3", "-c", script]), &input);
    assert_eq!((run.code, run.bytes == input, run.messages().as_str()), (0, true, "700000"));
}

fn code_of_ten_megabytes_runs(runtime: &'static str) {
    let folder = tempfile::tempdir().expect("there is room for a file");
    let file = folder.path().join("large.py");
    fs::write(&file, format!("text = '{}'\nprint(len(text))\n", "x".repeat(10 << 20)))
        .expect("the file can be written");
    let mut command = stockade();
    command.args(["run", "--runtime", runtime, "--memory", "1g"]).arg(&file);
    assert_eq!(finish(command).text(), format!("{}\n", 10 << 20));
}

fn program_is_killed_at_its_timeout(runtime: &'static str) {
    let run = run(runtime, &["--timeout", "2s"], &["sh", "-c", "sleep 99 & sleep 99"]);
    assert_eq!(run.code, 124, "{run:?}");
    assert!(run.elapsed.as_secs() < 20, "{run:?}");
}

fn program_out_of_memory_is_reported_as_such(runtime: &'static str) {
    let words = ["python3", "-c", "bytearray(400 << 20); print('fits')"];
    assert_eq!(run(runtime, &["--memory", "900m"], &words).text(), "fits\n");
    let report = report(runtime, &["--memory", "100m"], &words);
    assert_eq!(report["outcome"], "out_of_memory", "{report}");
}

fn fork_bomb_does_not_cost_the_session(runtime: &'static str) {
    let script = "
import os, time
count = 0
try:
    while count < 60:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        count += 1
except OSError as error:
    print('limit', count, error.errno)
";
    let ended = run(runtime, &["--pids", "30"], &["python3", "-c", script]);
    assert_eq!(ended.text(), "limit 29 11\n");
    let free = run(runtime, &["--pids", "100"], &["python3", "-c", script]);
    assert_eq!(free.text(), "");
}

fn disk_and_open_files_are_limited(runtime: &'static str) {
    let script = "
import os
def fill(path):
    try:
        with open(path, 'wb') as file:
            for _ in range(40): file.write(bytes(1 << 20))
        return 'all'
    except OSError as error:
        return error.errno
print(fill('/tmp/a'), fill('/workspace/a'))
files = []
try:
    while True: files.append(os.open('/dev/null', os.O_RDONLY))
except OSError as error:
    print(error.errno, 40 < len(files) <= 1024)
";
    let words = ["python3", "-c", script];
    assert_eq!(run(runtime, &["--disk", "64m"], &words).text(), "all all\n24 True\n");
    assert_eq!(run(runtime, &["--disk", "16m"], &words).text(), "28 28\n24 True\n");
}

fn container_has_no_rights_and_no_way_to_get_some(runtime: &'static str) {
    let script = "
import os, socket
status = dict(line.split(':', 1) for line in open('/proc/self/status') if ':' in line)
print(os.getuid(), status['CapEff'].strip(), status['CapBnd'].strip())
for act in [
    lambda: open('/usr/bin/new', 'w'),
    lambda: open('/run/stockade/guest', 'w'),
    lambda: os.unlink('/run/stockade/guest'),
    lambda: socket.create_connection(('192.0.2.1', 80), 2),
    lambda: os.setuid(0),
]:
    try:
        act()
        print('done')
    except OSError as error:
        print('refused')
print(sorted(os.listdir('/sys/class/net')) if os.path.isdir('/sys/class/net') else ['lo'])
";
    let none = "0000000000000000";
    let expected = format!("65534 {none} {none}\n{}['lo']\n", "refused\n".repeat(5));
    assert_eq!(run(runtime, &[], &["python3", "-c", script]).text(), expected);
}

fn tool_is_called_by_command_and_by_function(runtime: &'static str) {
    let folder = tempfile::tempdir().expect("there is room for a file");
    let file = folder.path().join("tools.yaml");
    let text = "tools:\n  - name: greet\n    command: [echo, '\"hello\"']\n    \
                input_schema: {type: object}\n";
    fs::write(&file, text).expect("the file can be written");
    let flags = ["--tools", file.to_str().expect("the path is text")];
    let script = "stockade-tool greet; python3 -c 'print(greet())'; \
                  echo x > /run/stockade/tools.json || echo kept";
    let run = run(runtime, &flags, &["sh", "-c", script]);
    assert_eq!(run.text(), "\"hello\"\nhello\nkept\n", "{run:?}");
}

fn report_names_the_kernel_that_ran(runtime: &'static str) {
    let report = report(runtime, &[], &["cat", "/proc/version"]);
    let stdout = report["stdout"].as_str().unwrap_or_default().to_owned();
    let text = report.to_string();
    let own = rustix::system::uname().release().to_string_lossy().into_owned();
    let (isolation, words) = match runtime {
        "runsc" => ("user-kernel", "gVisor, which reports Linux ".to_owned()),
        _ => ("container", format!("Linux {own}, the host's")),
    };
    assert!(text.contains(isolation) && text.contains(&words), "{text}");
    assert!(!text.contains("checked at the start"), "{text}");
    let is_gvisor = stdout.contains("Sun Jan 10 15:06:54 PST 2016") || stdout.contains("-gvisor");
    assert_eq!(is_gvisor, runtime == "runsc", "{stdout} {text}");
}

fn auto_takes_the_strongest_that_starts() {
    let expected = match engine::has("runsc") {
        true => "user-kernel",
        false => "container",
    };
    for _ in 0..2 {
        let report = report("auto", &[], &["true"]);
        assert_eq!(report["isolation"]["level"], expected, "{report}");
    }
}

fn runtime_that_cannot_start_is_refused() {
    for (runtime, words) in [("kata-runtime", "cannot start"), ("crun", "has no runtime crun")] {
        let run = run(runtime, &[], &["true"]);
        assert_eq!(run.code, 125, "{run:?}");
        assert!(run.stderr.contains(words), "{run:?}");
    }
}

fn missing_image_is_named_with_a_remedy() {
    let run = run("runc", &["--image", "nowhere.test/none:1"], &["true"]);
    assert_eq!(run.code, 125, "{run:?}");
    for words in ["no image nowhere.test/none:1", "docker pull nowhere.test/none:1"] {
        assert!(run.stderr.contains(words), "{run:?}");
    }
    let id = docker(&["images", "--quiet", "--no-trunc", "python:3.11-slim"]).remove(0);
    assert_eq!(crate::support::run("runc", &["--image", &id], &["echo", "x"]).text(), "x\n");
}

fn floor_above_the_runtime_is_refused() {
    assert_eq!(run("runc", &["--isolation", "container"], &["true"]).code, 0);
    let run = run("runc", &["--isolation", "user-kernel"], &["true"]);
    assert_eq!(run.code, 125, "{run:?}");
    assert!(run.stderr.contains("container isolation"), "{run:?}");
}

fn engine_that_is_down_is_a_short_error() {
    let mut command = stockade();
    command.args(["run", "--docker-url", "unix:///nonexistent/docker.sock", "--", "true"]);
    let run = finish(command);
    assert_eq!(run.code, 125, "{run:?}");
    assert!(run.stderr.contains("cannot reach a Docker engine"), "{run:?}");
    assert!(run.elapsed.as_secs() < 10, "{run:?}");
}

fn plan_and_doctor_know_the_wall() {
    let folder = tempfile::tempdir().expect("there is room for a file");
    let file = folder.path().join("policy.yaml");
    fs::write(&file, "isolation: container\n").expect("the file can be written");
    let mut command = stockade();
    command.args(["policy", "plan", "--provider", "docker", "--json"]).arg(&file);
    let plan = finish(command).json();
    assert_eq!(plan["provider"], "docker", "{plan}");
    let mut command = stockade();
    command.args(["doctor", "--json"]);
    let doctor = finish(command).json();
    let engine = &doctor["machine"]["containers"];
    assert!(engine["version"].is_string() && engine["cgroups"].is_number(), "{doctor}");
    let trial = |name: &str| {
        let trials = engine["trials"].as_array().cloned().unwrap_or_default();
        trials.into_iter().find(|trial| trial["runtime"] == name).unwrap_or_default()
    };
    assert!(trial("runc")["kernel"].is_string(), "{engine}");
    assert!(trial("kata-runtime")["obstacle"]["remedy"].is_string(), "{engine}");
}
