//! Many concurrent calls, from one sandbox and from several.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use schemars::JsonSchema;
use serde::Deserialize;
use stockade_engine::Tool;
use tokio::sync::{Barrier, watch};
use tokio::task::LocalSet;

use crate::api::{engine, printed, python, runtime, set_of};
use crate::support::walls_can_be_built;

const POLICY: &str = "
tool_allowlist: [gather, square]
defaults: {max_tool_calls: 100000, max_memory_mb: 1024, timeout_seconds: 500}
limits: {max_concurrent_tool_calls: 1024, max_tool_seconds: 400, max_pids: 1500, max_open_files: 4096}
";

#[derive(Deserialize, JsonSchema)]
struct Number {
    number: u64,
}

/// Calls a tool from `threads` Python threads, `each` times per thread, and checks every result.
fn caller(tool: &str, threads: u64, each: u64) -> String {
    format!(
        "
import threading
threading.stack_size(256 * 1024)
wrong, right = [], []
def ask(first):
    for number in range(first, first + {each}):
        try:
            answer = {tool}(number)
            (right if answer == number * number else wrong).append(answer)
        except Exception as error:
            wrong.append(repr(error))
threads = [threading.Thread(target=ask, args=[{each} * n]) for n in range({threads})]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(right), len(wrong), wrong[:3])
"
    )
}

/// `gather` returns when a thousand of its calls wait concurrently and a thousand calls of `square`
/// have returned; `square` waits for that thousand.
fn crowd() -> [Tool; 2] {
    let (barrier, full) = (Arc::new(Barrier::new(1000)), watch::Sender::new(false));
    let squares = watch::Sender::new(0);
    let (is_full, squared) = (full.clone(), squares.clone());
    let gather = Tool::new_async("gather", "", move |Number { number }| {
        let (barrier, full, squares) = (Arc::clone(&barrier), full.clone(), squares.clone());
        async move {
            barrier.wait().await;
            full.send_replace(true);
            squares.subscribe().wait_for(|count| *count >= 1000).await.map_err(|_| "gone")?;
            Ok::<_, &str>(number * number)
        }
    });
    let square = Tool::new_async("square", "", move |Number { number }| {
        let (full, squares) = (is_full.clone(), squared.clone());
        async move {
            full.subscribe().wait_for(|full| *full).await.map_err(|_| "gone")?;
            squares.send_modify(|count| *count += 1);
            Ok::<_, &str>(number * number)
        }
    });
    [gather, square].map(|tool| tool.expect("it is a tool"))
}

#[test]
fn thousand_concurrent_calls_and_ten_other_sandboxes_get_correct_results() {
    if !walls_can_be_built() {
        return;
    }
    let (engine, tools) = (Arc::new(engine()), set_of(crowd()));
    let runs = LocalSet::new();
    let run = |code: String| {
        let (engine, tools) = (Arc::clone(&engine), tools.clone());
        runs.spawn_local(async move { printed(&python(&engine, POLICY, tools, &code).await) })
    };
    let one = run(caller("gather", 1000, 1));
    let others: Vec<_> = (0..10).map(|_| run(caller("square", 20, 5))).collect();
    runs.block_on(&runtime(), async {
        assert_eq!(one.await.unwrap(), "1000 0 []\n");
        for other in others {
            assert_eq!(other.await.unwrap(), "100 0 []\n");
        }
    });
}

#[test]
fn flood_of_calls_does_not_starve_another_sandbox() {
    if !walls_can_be_built() {
        return;
    }
    // Small and large requests as fast as possible, on many connections.
    const FLOOD: &str = r#"
import os, socket, threading
small = b''.join(b'{"id":%d,"call":"square","arguments":{"number":%d}}\n' % (n, n) for n in range(500))
large = b'{"id":1,"call":"square","arguments":{"number":"' + b'x' * 900000 + b'"}}\n'
def pour(lines):
    talk = socket.socket(socket.AF_UNIX)
    talk.connect(os.environ["STOCKADE_TOOLS_SOCKET"])
    threading.Thread(target=drain, args=[talk], daemon=True).start()
    while True:
        talk.sendall(lines)
def drain(talk):
    while talk.recv(1 << 20):
        pass
for n in range(40):
    threading.Thread(target=pour, args=[large if n % 4 == 0 else small], daemon=True).start()
gather(0)
"#;
    const STEADY: &str = "
import time
took = []
for number in range(200):
    began = time.monotonic()
    assert square(number) == number * number
    took.append((time.monotonic() - began, number))
print(max(took)[0], sorted(took)[-5:])
gather(1)
";
    let flooded = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&flooded);
    // Both programs end when both have called `gather`, which the steady one does last.
    let barrier = Arc::new(Barrier::new(2));
    let square = Tool::new_async("square", "", move |Number { number }| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move { Ok::<_, String>(number * number) }
    });
    let gather = Tool::new_async("gather", "", move |Number { number }| {
        let barrier = Arc::clone(&barrier);
        async move {
            barrier.wait().await;
            Ok::<_, String>(number)
        }
    });
    let tools = set_of([square.unwrap(), gather.unwrap()]);
    let engine = engine();
    let (flood, steady) = runtime().block_on(async {
        tokio::join!(
            python(&engine, POLICY, tools.clone(), FLOOD),
            python(&engine, POLICY, tools.clone(), STEADY)
        )
    });
    printed(&flood);
    let took = printed(&steady);
    let worst: f64 = took.split(' ').next().unwrap().parse().unwrap();
    assert!(worst < 5.0, "the slowest calls with their numbers: {took}");
    assert!(flood.tool_calls > 1000, "there was no flood: {}", flood.tool_calls);
    assert!(flooded.load(Ordering::Relaxed) > 1000);
}
