//! Calls whose program no longer waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use stockade_tools::{Tool, Tools};
use tokio::sync::Notify;

use crate::world::{Workshop, World, gone, is_alive, numbers, within};

struct Dropped(Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// A tool that never answers, with signals for its start and its drop.
fn endless() -> (Tools, Arc<Notify>, Arc<Notify>) {
    let (begun, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (began, drops) = (Arc::clone(&begun), Arc::clone(&dropped));
    let mut tools = Tools::new();
    let hang = Tool::from_schema("hang", "", json!({"type": "object"}), None, move |_| {
        let (began, guard) = (Arc::clone(&began), Dropped(Arc::clone(&drops)));
        Box::pin(async move {
            began.notify_one();
            std::future::pending::<()>().await;
            drop(guard);
            Ok(Value::Null)
        })
    });
    tools.add(hang.unwrap()).unwrap();
    (tools, begun, dropped)
}

#[tokio::test]
async fn call_of_a_closed_connection_is_cancelled_and_recorded() {
    let (tools, begun, dropped) = endless();
    let world = World::new(tools, "");
    let mut program = world.connect();
    program.ask("hang", json!({})).await;
    within(begun.notified()).await;
    drop(program);
    within(dropped.notified()).await;
    assert_eq!(world.outcomes(1).await, ["cancelled"]);
    within(world.broker.idle()).await;
}

#[tokio::test]
async fn closing_the_broker_cancels_all_calls_and_accepts_no_more() {
    let (tools, begun, dropped) = endless();
    let world = World::new(tools, "");
    let mut program = world.connect();
    program.ask("hang", json!({})).await;
    within(begun.notified()).await;
    world.broker.close();
    within(world.broker.idle()).await;
    // When nothing is served any more, every call is recorded.
    assert_eq!(world.outcomes(1).await, ["cancelled"]);
    assert_eq!(world.broker.observed().calls, 1);
    within(dropped.notified()).await;
    assert_eq!(program.rest().await, "");
    assert_eq!(world.connect().rest().await, "");
}

#[tokio::test]
async fn dropping_the_connection_on_the_host_cancels_its_calls() {
    let (tools, begun, dropped) = endless();
    let world = World::new(tools, "");
    let (mut inside, outside) = tokio::io::duplex(1000);
    let serving = tokio::spawn(world.broker.serve(Box::new(outside)));
    let request = b"{\"id\":1,\"call\":\"hang\",\"arguments\":{}}\n";
    tokio::io::AsyncWriteExt::write_all(&mut inside, request).await.unwrap();
    within(begun.notified()).await;
    serving.abort();
    within(dropped.notified()).await;
    assert_eq!(world.outcomes(1).await, ["cancelled"]);
}

#[tokio::test]
async fn queued_call_of_a_closed_connection_never_runs() {
    let runs = Arc::new(AtomicUsize::new(0));
    let (mut tools, begun, _dropped) = endless();
    let counted = Arc::clone(&runs);
    let count = Tool::new("count", "", move |(): ()| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok::<_, String>(1)
    });
    tools.add(count.unwrap()).unwrap();
    let world = World::new(tools, "limits: {max_concurrent_tool_calls: 1}");
    let mut first = world.connect();
    first.ask("hang", json!({})).await;
    within(begun.notified()).await;
    let mut second = world.connect();
    second.ask("count", json!({})).await;
    drop(second);
    assert_eq!(world.outcomes(1).await, ["cancelled"]);
    drop(first);
    within(world.broker.idle()).await;
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn cancelling_kills_a_program_and_its_children() {
    let shop = Workshop::new();
    let code = "import os,subprocess,time\n\
        children = [subprocess.Popen(['sleep', '1000']) for _ in range(3)]\n\
        pids = [os.getpid()] + [child.pid for child in children]\n\
        open('pids', 'w').write(' '.join(map(str, pids)) + '\\n')\n\
        time.sleep(1000)\n";
    let world = World::new(shop.python("x", code, "").await, "");
    let mut program = world.connect();
    program.ask("x", json!({})).await;
    let processes = numbers(&shop.path().join("pids")).await;
    assert_eq!(processes.len(), 4);
    assert!(processes.iter().all(|process| is_alive(*process)));
    world.broker.close();
    within(world.broker.idle()).await;
    for process in processes {
        gone(process).await;
    }
    assert_eq!(world.outcomes(1).await, ["cancelled"]);
}
