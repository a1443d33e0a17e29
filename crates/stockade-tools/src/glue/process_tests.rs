//! Threads, forks, signals, event loops, and the cost of starting Python.

use std::time::{Duration, Instant};

use serde_json::json;

use super::broker::{TestBroker, ended, interpreter};
use super::tools;

#[test]
fn two_hundred_threads_call_concurrently_and_close_their_connections() {
    let broker = TestBroker::new(&tools());
    let printed = broker.python(
        r#"
import threading, time
got = []
def one(number):
    assert gather(of=200, number=number) == number
    assert echo(number=number) == {"number": number}
    got.append(number)
threads = [threading.Thread(target=one, args=(number,)) for number in range(200)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert sorted(got) == list(range(200))
print(echo(last=True))
import os
# Only the connection of this thread is left.
deadline = time.monotonic() + 30
def sockets():
    links = [os.path.realpath("/proc/self/fd/" + fd) for fd in os.listdir("/proc/self/fd")]
    return sum("socket:" in link for link in links)
while sockets() > 1 and time.monotonic() < deadline: time.sleep(0.01)
print(sockets())
"#,
    );
    assert_eq!(printed, "{'last': True}\n1\n");
    assert_eq!(broker.connections(), 201);
    let begun = Instant::now();
    while broker.open() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "{} are open", broker.open());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn parent_and_children_never_share_a_connection() {
    let broker = TestBroker::new(&tools());
    let code = r#"
import os, sys
sys.stdout.reconfigure(line_buffering=True)
assert echo(who="parent") == {"who": "parent"}
children = []
for number in range(8):
    child = os.fork()
    if child == 0:
        for turn in range(50):
            assert echo(number=number, turn=turn) == {"number": number, "turn": turn}
        os._exit(0)
    children.append(child)
for turn in range(50):
    assert echo(parent=turn) == {"parent": turn}
for child in children:
    assert os.waitpid(child, 0)[1] == 0
import multiprocessing
with multiprocessing.get_context("fork").Pool(4) as pool:
    assert pool.map(fetch_arxiv, ["a", "b", "c"]) == [{"query": q} for q in "abc"]
print("done")
"#;
    // Newer versions warn about forking a program with threads, and a pool has threads.
    let run = ended(broker.command(&interpreter("python3")).args(["-c", code]));
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "done\n"), "{}", run.stderr);
    assert!(broker.connections() >= 10, "{}", broker.connections());
}

#[test]
fn calls_can_be_awaited_and_made_inside_an_event_loop() {
    let broker = TestBroker::new(&tools());
    let printed = broker.python(
        r#"
import asyncio
from stockade_tools import acall_tool
async def main():
    assert echo(plain=1) == {"plain": 1}
    found = await asyncio.gather(*[acall_tool("gather", of=4, number=n) for n in range(4)])
    assert found == [0, 1, 2, 3], found
    assert await acall_tool("fetch_arxiv", "x", order="new") == {"query": "x", "order": "new"}
    try:
        await acall_tool("fail")
    except ToolError as error:
        print(error)
asyncio.run(main())
"#,
    );
    assert_eq!(printed, "the tool says “no”\n");
}

#[test]
fn nested_and_interrupted_calls_do_not_affect_others() {
    let broker = TestBroker::new(&tools());
    let printed = broker.python(
        r#"
import signal, socket
socket.setdefaulttimeout(0.05)
class Stop(Exception): pass
turns = []
def inside(*_):
    turns.append(echo(inside=len(turns)))
    if len(turns) == 3:
        raise Stop
signal.signal(signal.SIGALRM, inside)
signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
try:
    call_tool("sleep")
except Stop:
    print("stopped")
signal.setitimer(signal.ITIMER_REAL, 0)
assert turns == [{"inside": 0}, {"inside": 1}, {"inside": 2}], turns
for number in range(10):
    assert echo(number=number) == {"number": number}
"#,
    );
    assert_eq!(printed, "stopped\n");
}

#[test]
fn megabytes_pass_in_both_directions() {
    let broker = TestBroker::new(&tools());
    broker
        .python("x = 'é' * (4 << 20)\nassert echo(x=x) == {'x': x}\nassert echo(y=1) == {'y': 1}");
    assert_eq!(broker.arguments()[1], json!({ "y": 1 }));
}

#[test]
fn starting_python_imports_no_module_for_the_tools() {
    let broker = TestBroker::new(&tools());
    let python = interpreter("python3");
    let code = "import sys; print('\\n'.join(sorted(sys.modules)))";
    let bare = ended(broker.command(&python).env_remove("PYTHONPATH").args(["-c", code]));
    let with = ended(broker.command(&python).args(["-c", code]));
    let before: Vec<&str> = bare.stdout.lines().collect();
    let mut more: Vec<&str> = with.stdout.lines().filter(|name| !before.contains(name)).collect();
    more.retain(|name| *name != "sitecustomize");
    assert_eq!(more, ["_stockade_listing", "_stockade_sitecustomize"]);
    assert_eq!(with.stderr, "");
    // The first call imports the rest.
    let code = "echo(); import sys; print('stockade_tools' in sys.modules)";
    assert_eq!(ended(broker.command(&python).args(["-c", code])).stdout, "True\n");
}

#[test]
fn shadowed_sitecustomize_still_runs() {
    let broker = TestBroker::new(&tools());
    broker.file(
        "other/sitecustomize.py",
        "import sys\nsys.hidden = __file__\nsys.path.append('/x')\n",
    );
    broker.file("broken/sitecustomize.py", "import nothing_of_this_name\n");
    let python = interpreter("python3");
    let run = |other: &str, code: &str| {
        let place = broker.path().to_str().unwrap();
        let path = format!("{place}/python:{place}/{other}");
        ended(broker.command(&python).env("PYTHONPATH", path).args(["-c", code]))
    };
    let code = "import sys, sitecustomize\nprint(sys.hidden == sitecustomize.__file__, echo(x=1))\n\
                print(sys.path[1].endswith('/python'), sys.path[2].endswith('/other'), '/x' in sys.path)";
    let ended = run("other", code);
    assert_eq!(
        (ended.stdout.as_str(), ended.stderr.as_str()),
        ("True {'x': 1}\nTrue True True\n", "")
    );
    let ended = run("broken", "print(echo(x=1))");
    assert_eq!(ended.stdout, "{'x': 1}\n");
    assert!(ended.stderr.contains("nothing_of_this_name"), "as without us: {}", ended.stderr);
    let ended = run("nothing", "import sitecustomize; print(echo(x=1))");
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("{'x': 1}\n", ""));
}
