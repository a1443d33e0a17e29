//! Two concurrent sandboxes.

use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::canaries::{Canaries, LOOK, PLANT};
use crate::support::{
    Conversation, alone, command, finish, outside, processes, stockade, walls_can_be_built, within,
};
use stockade_testing::Scratch;

#[test]
fn nothing_of_one_sandbox_is_found_in_another() {
    if !walls_can_be_built() {
        return;
    }
    let canaries = Canaries::new("/tmp", 2);
    let plant = ["python3", "-c", PLANT, &canaries.argument];
    let passed = format!("PLANTED={}", canaries.token);
    let mut first =
        Conversation::start(command(&[&["--env", passed.as_str(), "--"][..], &plant].concat()));
    assert_eq!(first.hear(), "ready");
    let look = ["--", "python3", "-c", LOOK, &canaries.argument];
    assert_eq!(stockade(&look).json(), json!([]));
    assert_eq!(first.end(), 0, "the first was not disturbed");
}

#[test]
fn planted_secrets_are_found_within_the_same_sandbox() {
    if !walls_can_be_built() {
        return;
    }
    let canaries = Canaries::new("/tmp", 3);
    let both = "import subprocess, sys
plant, look, argument = sys.argv[1:]
planter = subprocess.Popen([sys.executable, '-c', plant, argument], env={'PLANTED': 'x'},
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
assert planter.stdout.readline() == 'ready\\n'
sys.stdout.write(subprocess.run([sys.executable, '-c', look, argument], capture_output=True,
    text=True).stdout)
planter.communicate()";
    let words = ["--", "python3", "-c", both, PLANT, LOOK, &canaries.argument];
    let found = stockade(&words).json();
    for name in ["abstract socket", "file", "process", "shared memory", "socket", "tcp"] {
        assert!(found.as_array().unwrap().contains(&json!(name)), "{name} is not in {found}");
    }
}

#[test]
fn no_signal_from_inside_reaches_a_process_outside() {
    if !walls_can_be_built() {
        return;
    }
    let mut first = Conversation::start(command(&["--", "cat"]));
    first.say("before");
    assert_eq!(first.hear(), "before");
    let mut host = Command::new("sleep").arg("98731").spawn().unwrap();
    // Signals all reachable processes at once, then each process id.
    let attack = "import os
hits = 0
for pid in [-1, *range(2, 40000)]:
    if pid == os.getpid(): continue
    try: os.kill(pid, 9); hits += 1
    except OSError: pass
print(hits)";
    let run = stockade(&["--quiet", "--", "python3", "-c", attack]);
    assert_eq!(run.text(), "0\n");
    assert!(host.try_wait().unwrap().is_none(), "a process of the host was killed");
    first.say("after");
    assert_eq!(first.hear(), "after");
    assert_eq!(first.end(), 0);
    host.kill().unwrap();
    host.wait().unwrap();
}

#[test]
fn busy_sandbox_does_not_starve_another() {
    if !walls_can_be_built() {
        return;
    }
    let _quiet = alone();
    let busy = "while :; do :; done & while :; do :; done & echo ready; while :; do :; done";
    let mut hungry =
        Conversation::start(command(&["--quiet", "--cpus", "1", "--", "sh", "-c", busy]));
    assert_eq!(hungry.hear(), "ready");
    let modest = "print(sum(range(10**6)))";
    let run = finish(command(&["--cpus", "1", "--timeout", "20s", "--", "python3", "-c", modest]));
    assert_eq!(run.text(), "499999500000\n");
    assert!(run.elapsed < Duration::from_secs(10), "{:?}", run.elapsed);
    assert!(hungry.0.try_wait().unwrap().is_none(), "the hungry one still runs");
}

#[test]
fn writes_of_one_sandbox_to_its_workspace_are_not_seen_in_another() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    scratch.file("shared", "as it was");
    let words = ["--workspace", scratch.text(), "--"];
    let change = "echo changed > shared; rm -f other; echo new > new; echo ready; cat";
    let mut first = Conversation::start(command(&[&words[..], &["sh", "-c", change]].concat()));
    assert_eq!(first.hear(), "ready");
    let run = stockade(&[&words[..], &["sh", "-c", "cat shared; ls"]].concat());
    assert_eq!(run.text(), "as it wasshared\n");
    assert_eq!(first.end(), 0);
    let left = || processes().iter().any(|line| line.contains("echo changed > shared"));
    assert!(within(Duration::from_secs(2), || !left()));
}

/// Tries to block or exhaust resources that the whole host shares.
const SHARED: &str = "import ctypes, fcntl, os, resource, tempfile
libc = ctypes.CDLL(None, use_errno=True)
context = ctypes.c_ulong(0)
print('aio', libc.syscall(206, 8, ctypes.byref(context)) == 0)
def works(name, act):
    try: act(); print(name, True)
    except OSError: print(name, False)
with tempfile.NamedTemporaryFile() as file:
    reader = os.open(file.name, os.O_RDONLY)
    file.close()
    works('lease', lambda: fcntl.fcntl(reader, 1024, 0))
works('limits of another', lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CORE))
count = 0
while count < 64 and libc.inotify_init1(0) >= 0: count += 1
print('watches', count >= 64)";

#[test]
fn resources_that_the_host_shares_cannot_be_exhausted_or_blocked() {
    if !walls_can_be_built() {
        return;
    }
    let told = |answer: &str| {
        let names = ["aio", "lease", "limits of another", "watches"];
        names.map(|name| format!("{name} {answer}\n")).concat()
    };
    assert_eq!(outside(&["python3", "-c", SHARED]).text(), told("True"));
    assert_eq!(stockade(&["--", "python3", "-c", SHARED]).text(), told("False"));
}
