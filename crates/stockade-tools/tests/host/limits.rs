//! Limits of the policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use stockade_policy::Limit;
use stockade_tools::{Tool, ToolFailure, Tools};
use tokio::sync::Semaphore;

use crate::world::{World, code, message, result, within};

/// Returns its arguments.
pub(crate) fn echo() -> Tools {
    let mut tools = Tools::new();
    let schema = json!({"type": "object"});
    let echo = Tool::from_schema("echo", "Echoes.", schema, None, |arguments| {
        Box::pin(async move { Ok(arguments.get("say").cloned().unwrap_or(Value::Null)) })
    });
    tools.add(echo.unwrap()).unwrap();
    tools
}

/// Never answers.
fn hang() -> Tools {
    let mut tools = Tools::new();
    let hang = Tool::from_schema("hang", "", json!({"type": "object"}), None, |_| {
        Box::pin(std::future::pending())
    });
    tools.add(hang.unwrap()).unwrap();
    tools
}

#[tokio::test]
async fn number_of_calls_is_limited_and_refused_ones_do_not_count() {
    let world = World::new(echo(), "defaults: {max_tool_calls: 2}");
    let mut program = world.connect();
    assert_eq!(code(&program.call("nobody", json!({})).await), "denied");
    assert_eq!(program.call("echo", json!({"say": 1})).await, result(1));
    assert_eq!(program.call("echo", json!({"say": 2})).await, result(2));
    let beyond = program.call("echo", json!({})).await;
    assert_eq!(code(&beyond), "limit");
    let expected = "2 calls were made already, as many as max_tool_calls allows; raise \
                    defaults.max_tool_calls in the policy";
    assert_eq!(message(&beyond), expected);
    let observed = world.broker.observed();
    assert!(observed.limits_hit.contains(&Limit::ToolCalls));
    assert_eq!(observed.denials[1].control, "max_tool_calls");
}

#[tokio::test]
async fn messages_use_the_singular_for_one() {
    let limits = "defaults: {max_tool_calls: 1}\nlimits: {max_tool_seconds: 1, max_tool_depth: 1}";
    let world = World::new(hang(), limits);
    let mut program = world.connect();
    let deep = message(&program.call("hang", json!({"x": []})).await);
    assert!(deep.starts_with("the arguments are nested more than 1 level deep;"), "{deep}");
    let late = message(&program.call("hang", json!({})).await);
    assert!(late.starts_with("the tool did not answer within 1 second;"), "{late}");
    let beyond = message(&program.call("hang", json!({})).await);
    assert!(beyond.starts_with("1 call was made already,"), "{beyond}");
}

#[tokio::test]
async fn calls_above_the_rate_are_refused() {
    let limits = "defaults: {max_tool_calls: 100}\nlimits: {max_tool_calls_per_second: 3}";
    let world = World::new(echo(), limits);
    let mut program = world.connect();
    for _ in 0..20 {
        program.ask("echo", json!({})).await;
    }
    let mut refused = 0;
    for _ in 0..20 {
        let answer = program.answer().await;
        if answer.get("error").is_some() {
            assert_eq!(code(&answer), "too_many");
            refused += 1;
        }
    }
    assert!((10..=17).contains(&refused), "{refused}");
    assert!(world.broker.observed().limits_hit.contains(&Limit::ToolRate));
}

#[tokio::test]
async fn arguments_and_results_are_limited_in_size_and_depth() {
    let limits =
        "limits: {max_tool_bytes: 1000, max_tool_depth: 4}\ndefaults: {max_tool_calls: 100}";
    let world = World::new(echo(), limits);
    let mut program = world.connect();
    let fits = "x".repeat(1000 - r#"{"say":""}"#.len());
    assert_eq!(program.call("echo", json!({"say": fits.clone()})).await, result(fits.clone()));
    let large = program.call("echo", json!({"say": fits + "x"})).await;
    assert_eq!(code(&large), "too_large");
    assert!(message(&large).contains("more than 1000 bytes"), "{large}");
    assert_eq!(program.call("echo", json!({"say": [[[]]]})).await, result(json!([[[]]])));
    let deep = program.call("echo", json!({"say": [[[[]]]]})).await;
    assert_eq!(code(&deep), "too_deep");
    let observed = world.broker.observed();
    assert_eq!(Vec::from_iter(observed.limits_hit), [Limit::ToolBytes, Limit::ToolDepth]);
}

#[tokio::test]
async fn results_over_the_limits_are_not_passed_on() {
    let mut tools = Tools::new();
    let make = |name: &str, value: Value| {
        Tool::from_schema(name, "", json!({"type": "object"}), None, move |_| {
            let value = value.clone();
            Box::pin(async move { Ok::<_, ToolFailure>(value) })
        })
        .unwrap()
    };
    tools.add(make("large", json!("x".repeat(999)))).unwrap();
    tools.add(make("deep", (0..200).fold(json!(1), |inner, _| json!([inner])))).unwrap();
    let world = World::new(tools, "limits: {max_tool_bytes: 1000}");
    assert_eq!(code(&world.call("large", json!({})).await), "too_large");
    let deep = world.call("deep", json!({})).await;
    assert_eq!((code(&deep), message(&deep)), (
        "too_deep".into(),
        "the tool's result is nested more than 64 levels deep; the limit is max_tool_depth in the policy".into(),
    ));
}

#[tokio::test]
async fn calls_over_the_concurrency_limit_wait() {
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let gate = Arc::new(Semaphore::new(0));
    let seen = (Arc::clone(&running), Arc::clone(&most), Arc::clone(&gate));
    let mut tools = Tools::new();
    let slow = Tool::from_schema("slow", "", json!({"type": "object"}), None, move |_| {
        let (running, most, gate) = seen.clone();
        Box::pin(async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            gate.acquire().await.unwrap().forget();
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(Value::Null)
        })
    });
    tools.add(slow.unwrap()).unwrap();
    let limits = "limits: {max_concurrent_tool_calls: 3}\ndefaults: {max_tool_calls: 100}";
    let world = World::new(tools, limits);
    let mut programs = [world.connect(), world.connect()];
    for _ in 0..10 {
        for program in &mut programs {
            program.ask("slow", json!({})).await;
        }
    }
    within(async {
        while running.load(Ordering::SeqCst) < 3 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    gate.add_permits(20);
    for program in &mut programs {
        for _ in 0..10 {
            assert!(program.answer().await.get("result").is_some());
        }
    }
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn call_that_never_gets_to_run_reports_why() {
    let tools = hang();
    let limits = "limits: {max_concurrent_tool_calls: 1, max_tool_seconds: 0.3}";
    let world = World::new(tools, limits);
    let mut program = world.connect();
    let mut other = world.connect();
    program.ask("hang", json!({})).await;
    other.ask("hang", json!({})).await;
    let mut messages = [message(&program.answer().await), message(&other.answer().await)];
    messages.sort();
    assert!(messages[0].starts_with("the tool did not answer within 0.3 seconds"), "{messages:?}");
    // Either it waited to the end, or it was cut off by the rest of the time.
    let waited = messages[1].contains("max_concurrent_tool_calls");
    assert!(waited || messages[1].starts_with("the tool did not answer"), "{messages:?}");
}

#[tokio::test]
async fn no_call_is_answered_after_the_record_fails() {
    let world = World::new(echo(), "");
    let mut program = world.connect();
    assert_eq!(program.call("echo", json!({"say": 1})).await, result(1));
    world.break_record();
    program.ask("echo", json!({"say": 2})).await;
    assert_eq!(program.rest().await, "");
    assert_eq!(world.connect().rest().await, "");
}
