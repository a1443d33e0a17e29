//! Tools that are functions: their calls are judged, checked and recorded.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stockade_policy::Effect;
use stockade_tools::{Tool, ToolFailure, Tools};

use crate::world::{World, code, message, result};

#[derive(Deserialize, JsonSchema)]
struct Pair {
    /// The first number.
    a: i64,
    #[serde(default)]
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

fn add() -> Tool {
    Tool::new("add", "Adds two numbers.", |pair: Pair| match pair.a.checked_add(pair.b) {
        Some(sum) => Ok(Sum { sum }),
        None => Err("the sum is too large"),
    })
    .unwrap()
}

fn set(tools: impl IntoIterator<Item = Tool>) -> Tools {
    let mut set = Tools::new();
    for tool in tools {
        set.add(tool).unwrap();
    }
    set
}

#[tokio::test]
async fn function_receives_typed_arguments_and_every_call_is_recorded() {
    let world = World::new(set([add()]), "");
    assert_eq!(world.call("add", json!({"a": 2, "b": 3})).await, result(json!({"sum": 5})));
    assert_eq!(world.call("add", json!({"a": 2})).await, result(json!({"sum": 2})));
    let failed = world.call("add", json!({"a": i64::MAX, "b": 1})).await;
    assert_eq!((code(&failed), message(&failed)), ("failed".into(), "the sum is too large".into()));
    let events = world.events(3).await;
    assert_eq!((events[0].execution, events[0].call, events[2].call), (None, 1, 3));
    assert_eq!((events[0].tool.as_str(), events[0].outcome.as_str()), ("add", "answered"));
    assert_eq!((events[0].argument_bytes, events[0].result_bytes), (13, 9));
    assert_eq!((events[0].verdict, &events[0].denial), (Effect::Allow, &None));
    assert_eq!(events[0].arguments, None);
    assert!(events[0].rule.contains("p.yaml:1"), "{}", events[0].rule);
    assert_eq!((events[2].outcome.as_str(), events[2].result_bytes), ("failed", 0));
    assert_eq!(world.broker.observed().calls, 3);
}

#[tokio::test]
async fn arguments_that_do_not_fit_never_reach_the_function() {
    let world = World::new(set([add()]), "");
    let wrong = world.call("add", json!({"a": "2"})).await;
    assert_eq!(code(&wrong), "invalid_arguments");
    assert_eq!(message(&wrong), "`arguments.a` must be an integer, not a string");
    let unknown = world.call("add", json!({"a": 1, "c": 2})).await;
    let expected = "`arguments` has `c`, which the tool does not know; it takes `a`, `b`";
    assert_eq!((code(&unknown), message(&unknown)), ("invalid_arguments".into(), expected.into()));
    // They do not count as calls that ran.
    assert_eq!(world.outcomes(2).await, ["invalid_arguments"; 2]);
}

#[tokio::test]
async fn explicit_schemas_of_an_async_tool_are_enforced_both_ways() {
    let wait = Tool::new_async("wait", "Waits.", |pair: Pair| async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok::<_, ToolFailure>(pair.a)
    });
    let input = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let output = json!({"type": "string"});
    let any = Tool::from_schema("any", "", input, Some(output), |arguments| {
        Box::pin(async move {
            match arguments["n"].as_i64() {
                Some(0) => Ok(json!("zero")),
                Some(1) => Err(ToolFailure::new("one is not possible")),
                _ => Ok(json!({"not": "a string"})),
            }
        })
    });
    let world = World::new(set([wait.unwrap(), any.unwrap()]), "");
    assert_eq!(world.call("wait", json!({"a": 4})).await, result(4));
    assert_eq!(world.call("any", json!({"n": 0})).await, result("zero"));
    assert_eq!(message(&world.call("any", json!({"n": 1})).await), "one is not possible");
    let broken = world.call("any", json!({"n": 2})).await;
    assert_eq!(code(&broken), "invalid_result");
    assert!(message(&broken).contains("`result` must be a string, not an object"), "{broken}");
}

#[tokio::test]
async fn unlisted_tool_is_denied_and_appears_once_in_the_result() {
    let world = World::with_policy(set([add()]), "tool_allowlist: [other]");
    let mut program = world.connect();
    for _ in 0..3 {
        let denied = program.call("add", json!({"a": 1})).await;
        assert_eq!(code(&denied), "denied");
        let expected =
            "tool_allowlist does not name `add`; to allow it, add `add` to tool_allowlist";
        assert_eq!(message(&denied), expected);
    }
    let unknown = program.call("other", json!({})).await;
    assert_eq!(code(&unknown), "unknown");
    let events = world.events(4).await;
    assert_eq!((events[0].verdict, events[0].outcome.as_str()), (Effect::Deny, "denied"));
    assert_eq!(events[0].denial.as_ref().unwrap().control, "tools");
    let observed = world.broker.observed();
    assert_eq!(observed.denials.len(), 1, "{observed:?}");
    assert_eq!((observed.denials[0].target.as_str(), observed.calls), ("add", 4));
}

#[tokio::test]
async fn rules_judge_the_name_and_the_arguments() {
    let rules = "tool_allowlist: [add]\nrules:\n  - name: no-thirteen\n    condition: {field: \
                 arguments.a, operator: eq, value: 13}\n    action: deny\n    message: unlucky\n";
    let world = World::with_policy(set([add()]), rules);
    assert_eq!(world.call("add", json!({"a": 12})).await, result(json!({"sum": 12})));
    let denied = world.call("add", json!({"a": 13})).await;
    assert_eq!(code(&denied), "denied");
    assert!(message(&denied).contains("unlucky"), "{denied}");
}

#[tokio::test]
async fn arguments_are_recorded_only_if_the_policy_allows_it() {
    let world = World::new(set([add()]), "tool_arguments: record");
    world.call("add", json!({"a": 1, "b": 2})).await;
    assert_eq!(world.events(1).await[0].arguments.as_deref(), Some(r#"{"a":1,"b":2}"#));
}

#[tokio::test]
async fn listing_has_the_tools_that_are_both_allowed_and_offered() {
    let other = Tool::new("hidden", "Not allowed.", |(): ()| Ok::<_, String>(1)).unwrap();
    let world = World::with_policy(set([add(), other]), "tool_allowlist: [add, missing]");
    let mut program = world.connect();
    program.send("{\"id\":\"x\",\"list\":true}\n").await;
    let answer = program.answer().await;
    assert_eq!(answer["id"], "x");
    let list = answer["result"].as_array().unwrap();
    assert_eq!(list.len(), 1);
    assert_eq!(
        (&list[0]["name"], &list[0]["description"]),
        (&json!("add"), &json!("Adds two numbers."))
    );
    let input = &list[0]["input_schema"];
    assert_eq!(input["properties"]["a"]["description"], "The first number.");
    assert_eq!(
        (&input["required"], &input["additionalProperties"]),
        (&json!(["a"]), &json!(false))
    );
    assert_eq!(list[0]["output_schema"]["properties"]["sum"]["type"], "integer");
}

#[tokio::test]
async fn panic_and_hang_fail_only_their_own_call() {
    let panics = Tool::new("panics", "", |(): ()| -> Result<Value, String> { panic!("oh no") });
    let panics_late = Tool::new_async("panics_late", "", |(): ()| async {
        tokio::task::yield_now().await;
        if true {
            panic!("oh {}", "dear");
        }
        Ok::<Value, String>(Value::Null)
    });
    let hangs = Tool::new("hangs", "", |(): ()| -> Result<Value, String> {
        std::thread::sleep(Duration::from_secs(3));
        Ok(Value::Null)
    });
    let waits = Tool::new_async("waits", "", |(): ()| async {
        std::future::pending::<Result<Value, String>>().await
    });
    let tools = [panics, panics_late, hangs, waits].map(Result::unwrap);
    let tools = set(tools.into_iter().chain([add()]));
    // Printing a panic takes time when a backtrace resolves every frame.
    let world = World::new(tools.clone(), "");
    let mut program = world.connect();
    let panicked = program.call("panics", json!({})).await;
    assert_eq!(
        (code(&panicked), message(&panicked)),
        ("broken".into(), "the tool panicked: oh no".into())
    );
    let panicked = program.call("panics_late", json!({})).await;
    assert_eq!(message(&panicked), "the tool panicked: oh dear");
    assert_eq!(program.call("add", json!({"a": 1})).await, result(json!({"sum": 1})));
    assert_eq!(world.outcomes(3).await, ["broken", "broken", "answered"]);
    let world = World::new(tools, "limits: {max_tool_seconds: 0.5}");
    let mut program = world.connect();
    let late =
        "the tool did not answer within 0.5 seconds; the limit is max_tool_seconds in the policy";
    for name in ["hangs", "waits"] {
        let answer = program.call(name, json!({})).await;
        assert_eq!((code(&answer), message(&answer)), ("timed_out".into(), late.into()));
    }
    assert_eq!(program.call("add", json!({"a": 1})).await, result(json!({"sum": 1})));
    assert_eq!(world.outcomes(3).await, ["timed_out", "timed_out", "answered"]);
}

#[tokio::test]
async fn duplicate_and_invalid_names_are_refused_before_the_run() {
    let mut tools = set([add()]);
    assert!(tools.add(add()).unwrap_err().to_string().contains("two tools are called `add`"));
    assert!(tools.merge(set([add()])).is_err());
    assert_eq!(tools.names().collect::<Vec<_>>(), ["add"]);
    for name in ["", "a b", "ä", "-x", &"x".repeat(129), "a\nb"] {
        let error = Tool::new(name, "", |(): ()| Ok::<_, String>(1)).unwrap_err().to_string();
        assert!(error.contains("is not the name of a tool"), "{error}");
    }
    let scalar = Tool::new("x", "", |number: i64| Ok::<_, String>(number)).unwrap_err();
    assert!(scalar.to_string().contains("input_schema"), "{scalar}");
}
