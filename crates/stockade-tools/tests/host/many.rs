//! Many concurrent calls.

use std::time::Duration;

use serde_json::json;
use stockade_tools::{Tool, ToolFailure, Tools};

use crate::world::{Workshop, World};

fn double() -> Tools {
    let mut tools = Tools::new();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let double = Tool::from_schema("double", "", schema, None, |arguments| {
        Box::pin(async move {
            let n = arguments["n"].as_u64().unwrap_or(0);
            tokio::time::sleep(Duration::from_millis(n % 7)).await;
            Ok::<_, ToolFailure>(json!(2 * n))
        })
    });
    tools.add(double.unwrap()).unwrap();
    tools
}

const MANY: &str = "defaults: {max_tool_calls: 10000}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_calls_on_one_connection_get_their_own_answers() {
    let world = World::new(double(), MANY);
    let mut program = world.connect();
    for n in 0..1000 {
        program.ask("double", json!({"n": n})).await;
    }
    let mut seen = vec![false; 1000];
    for _ in 0..1000 {
        let answer = program.answer().await;
        let n = answer["id"].as_u64().unwrap() - 1;
        assert_eq!(answer["result"], 2 * n, "{answer}");
        assert!(!std::mem::replace(&mut seen[usize::try_from(n).unwrap()], true));
    }
    assert_eq!(world.outcomes(1000).await.len(), 1000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_connections_call_concurrently_without_delaying_other_brokers() {
    let busy = World::new(double(), MANY);
    let others: Vec<World> = (0..10).map(|_| World::new(double(), MANY)).collect();
    let mut programs: Vec<_> = (0..1000).map(|_| busy.connect()).collect();
    for (n, program) in programs.iter_mut().enumerate() {
        program.ask("double", json!({"n": n})).await;
    }
    for other in &others {
        let mut program = other.connect();
        for n in 0..100 {
            assert_eq!(program.call("double", json!({"n": n})).await, json!({"result": 2 * n}));
        }
    }
    for (n, program) in programs.iter_mut().enumerate() {
        assert_eq!(program.answer().await["result"], 2 * n);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_programs_and_blocking_functions_are_limited() {
    let shop = Workshop::new();
    shop.write("id.sh", "cat\n");
    let yaml =
        "tools:\n  - name: same\n    command: [sh, ./id.sh]\n    input_schema: {type: object}\n";
    let mut tools = shop.tools(yaml).await;
    let sleep = Tool::new("sleep", "", |(): ()| {
        std::thread::sleep(Duration::from_millis(5));
        Ok::<_, String>(1)
    });
    tools.add(sleep.unwrap()).unwrap();
    let world = World::new(tools, MANY);
    let mut program = world.connect();
    for n in 0..200 {
        program.ask("same", json!({"n": n + 1})).await;
        program.ask("sleep", json!({})).await;
    }
    for _ in 0..400 {
        let answer = program.answer().await;
        let id = answer["id"].as_u64().unwrap();
        let expected = if id % 2 == 1 { json!({"n": id.div_ceil(2)}) } else { json!(1) };
        assert_eq!(answer["result"], expected, "{answer}");
    }
}
