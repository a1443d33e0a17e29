//! Tools of an MCP server, a real process that speaks over stdin and stdout.

use std::time::Duration;

use serde_json::{Value, json};
use stockade_tools::Tools;

use crate::world::{Workshop, World, code, gone, is_alive, message, result, within};

const SERVER: &str = include_str!("mcp_server.py");
const MANY: &str = "defaults: {max_tool_calls: 10000}\n";

fn shop() -> Workshop {
    let shop = Workshop::new();
    shop.write("server.py", SERVER);
    shop
}

fn yaml(mode: &str, tools: &str) -> String {
    format!(
        "mcp_servers:\n  - name: test\n    command: [python3, ./server.py, '{mode}']\n    tools: [{tools}]\n"
    )
}

async fn start(shop: &Workshop) -> Tools {
    shop.tools(&yaml("", "add, {name: do, as: act}")).await
}

/// One call of the tool that does what its arguments ask.
async fn act(world: &World, what: &str, n: i64) -> Value {
    world.call("act", json!({"what": what, "n": n})).await
}

#[tokio::test]
async fn tools_are_imported_by_name_and_their_schemas_are_enforced() {
    let shop = shop();
    let world = World::new(start(&shop).await, MANY);
    assert_eq!(world.call("add", json!({"a": 2, "b": 3})).await, result(json!({"sum": 5})));
    let wrong = world.call("add", json!({"a": 2, "b": "3"})).await;
    assert_eq!(message(&wrong), "`arguments.b` must be an integer, not a string");
    assert_eq!(
        code(&world.call("add", json!({"a": 2, "b": 3, "c": 4})).await),
        "invalid_arguments"
    );
    let unlucky = world.call("add", json!({"a": 6, "b": 7})).await;
    assert_eq!(code(&unlucky), "invalid_result");
    assert!(message(&unlucky).contains("`result.sum` must be an integer"), "{unlucky}");
    let mut program = world.connect();
    program.send("{\"id\":1,\"list\":true}\n").await;
    let list = program.answer().await;
    // In the order of the policy, which is sorted here.
    assert_eq!(list["result"][0]["name"], "act");
    assert_eq!(list["result"][0]["description"], "Does what its arguments ask.");
    assert_eq!(list["result"][1]["input_schema"]["additionalProperties"], false);
}

#[tokio::test]
async fn content_items_become_the_result() {
    let shop = shop();
    let world = World::new(start(&shop).await, MANY);
    assert_eq!(act(&world, "say", 0).await, result("plain words"));
    assert_eq!(act(&world, "json", 0).await, result(json!({"deep": [1, 2]})));
    let many = act(&world, "many", 0).await;
    let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
    assert_eq!(many, result(json!(["one", 2, image])));
    assert_eq!(act(&world, "nothing", 0).await, json!({"result": null}));
    let failed = act(&world, "fail", 0).await;
    assert_eq!((code(&failed), message(&failed)), ("failed".into(), "no such paper".into()));
    let error = act(&world, "what is this", 0).await;
    assert_eq!(
        (code(&error), message(&error)),
        ("failed".into(), "unknown tool what is this".into())
    );
}

#[tokio::test]
async fn dead_server_fails_its_calls_with_its_exit_status() {
    let shop = shop();
    let world = World::new(start(&shop).await, MANY);
    let mut program = world.connect();
    program.ask("act", json!({"what": "hang"})).await;
    program.ask("act", json!({"what": "die"})).await;
    for _ in 0..2 {
        let answer = program.answer().await;
        let expected = "the tool's server `test` ended by itself, exit status: 3: dying now";
        assert_eq!((code(&answer), message(&answer)), ("broken".into(), expected.into()));
    }
    let later = act(&world, "say", 0).await;
    assert_eq!(code(&later), "broken");
}

#[tokio::test]
async fn hanging_call_times_out_and_the_others_continue() {
    let shop = shop();
    let world = World::new(start(&shop).await, &format!("{MANY}limits: {{max_tool_seconds: 1}}"));
    assert_eq!(code(&act(&world, "hang", 0).await), "timed_out");
    assert_eq!(act(&world, "say", 0).await, result("plain words"));
}

#[tokio::test]
async fn long_answer_fails_its_call_and_an_endless_one_ends_the_server() {
    let shop = shop();
    let world = World::new(start(&shop).await, MANY);
    assert_eq!(act(&world, "say", 0).await, result("plain words"));
    assert_eq!(code(&act(&world, "long", 2 << 20).await), "too_large");
    assert_eq!(code(&act(&world, "long", 20 << 20).await), "too_large");
    assert_eq!(act(&world, "say", 0).await, result("plain words"));
    assert_eq!(code(&act(&world, "endless", 0).await), "broken");
    let after = act(&world, "say", 0).await;
    assert_eq!(message(&after), "the tool's server `test` wrote a line that does not end");
}

#[tokio::test]
async fn long_answer_fails_only_its_own_call() {
    let shop = shop();
    let world = World::new(start(&shop).await, MANY);
    let mut program = world.connect();
    program.ask("act", json!({"what": "sleep", "n": 1500})).await;
    program.ask("act", json!({"what": "long", "n": 8 << 20})).await;
    let long = program.answer().await;
    assert_eq!((&long["id"], code(&long)), (&json!(2), "too_large".into()));
    assert_eq!(program.answer().await, json!({"id": 1, "result": 1500}));
}

#[tokio::test]
async fn noise_is_ignored_and_unparseable_answers_fail_their_call() {
    let shop = shop();
    let world = World::new(start(&shop).await, MANY);
    assert_eq!(act(&world, "noise", 0).await, result("after the noise"));
    assert_eq!(code(&act(&world, "nan", 0).await), "invalid_result");
    assert_eq!(code(&act(&world, "deep", 10_000).await), "too_deep");
    assert_eq!(code(&act(&world, "deep_structure", 10_000).await), "too_deep");
    // The deepest result that the policy allows by default passes.
    assert!(act(&world, "deep_structure", 64).await.get("result").is_some());
    assert_eq!(code(&act(&world, "deep_structure", 120).await), "too_deep");
    assert_eq!(act(&world, "say", 0).await, result("plain words"));
}

#[tokio::test]
async fn concurrent_calls_get_their_own_answers() {
    let shop = shop();
    let world = World::new(start(&shop).await, MANY);
    let mut program = world.connect();
    for n in 0..200 {
        program.ask("act", json!({"what": "sleep", "n": n % 50})).await;
    }
    for _ in 0..200 {
        let answer = program.answer().await;
        let id = answer["id"].as_i64().unwrap();
        assert_eq!(answer["result"], (id - 1) % 50, "{answer}");
    }
}

#[tokio::test]
async fn server_and_its_children_end_with_its_tools() {
    let shop = shop();
    let tools = start(&shop).await;
    let world = World::new(tools.clone(), MANY);
    let processes = act(&world, "child", 0).await;
    let processes: Vec<i64> = serde_json::from_value(processes["result"].clone()).unwrap();
    assert!(processes.iter().all(|process| is_alive(*process)));
    within(tools.end()).await;
    for process in &processes {
        gone(*process).await;
    }
    let after = act(&world, "say", 0).await;
    assert_eq!(message(&after), "the tool's server `test` was ended with the run");
}

#[tokio::test]
async fn server_ends_when_its_tools_are_dropped() {
    let shop = shop();
    let world = World::new(start(&shop).await, MANY);
    let processes = act(&world, "child", 0).await;
    let processes: Vec<i64> = serde_json::from_value(processes["result"].clone()).unwrap();
    drop(world);
    for process in processes {
        gone(process).await;
    }
}

#[tokio::test]
async fn server_errors_are_reported_before_the_run() {
    let mut shop = shop();
    let missing = shop.refusal(&yaml("", "add, subtract")).await;
    let expected = "the tool server `test` has no tool `subtract`; it has: `add`, `do`";
    assert_eq!(missing, expected);
    let dies = shop.refusal(&yaml("dies", "add")).await;
    let expected = "the tool server `test` ended by itself, exit status: 1: no configuration found";
    assert_eq!(dies, expected);
    let chatter = shop.refusal(&yaml("chatter", "add")).await;
    assert_eq!(chatter, "the tool server `test` ended by itself, exit status: 0");
    shop.around.patience = Duration::from_millis(300);
    let mute = shop.refusal(&yaml("mute", "add")).await;
    assert_eq!(mute, "the tool server `test` did not list its tools within 0.3 seconds");
    let absent = "mcp_servers:\n  - name: test\n    command: [./absent]\n    tools: [add]\n";
    let absent = shop.refusal(absent).await;
    assert!(absent.starts_with("cannot start the tool server `test`: No such file"), "{absent}");
}

#[tokio::test]
async fn server_gets_only_the_ordinary_variables() {
    let mut shop = shop();
    shop.around.environment.insert("OTHER_SECRET".into(), "s".into());
    let world = World::new(start(&shop).await, MANY);
    let names = act(&world, "environment", 0).await;
    let names: Vec<String> = serde_json::from_value(names["result"].clone()).unwrap();
    assert!(names.contains(&"PATH".to_owned()));
    assert!(!names.contains(&"OTHER_SECRET".to_owned()), "{names:?}");
}
