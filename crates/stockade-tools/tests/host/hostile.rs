//! Programs that send malformed or oversized input.

use serde_json::json;
use stockade_policy::Limit;

use crate::limits::echo;
use crate::world::{World, code, message, result};

/// Sends bytes as a line; the answer must be this refusal, and the connection must end after it.
async fn refused(world: &World, line: impl AsRef<[u8]>, expected: &str) -> String {
    let mut program = world.connect();
    program.try_send(line).await;
    program.try_send("\n").await;
    let answer = program.answer().await;
    assert_eq!(code(&answer), expected);
    assert_eq!(answer["id"], json!(null));
    assert_eq!(program.rest().await, "");
    message(&answer)
}

#[tokio::test]
async fn malformed_request_gets_an_error_and_ends_the_connection() {
    let world = World::new(echo(), "");
    let call = |arguments: &str| format!(r#"{{"id":1,"call":"echo","arguments":{arguments}}}"#);
    let twice = refused(&world, call(r#"{"a":1,"a":2}"#), "invalid_request").await;
    assert!(twice.contains("the key `a` occurs twice"), "{twice}");
    let not_a_number = refused(&world, call(r#"{"a":NaN}"#), "invalid_request").await;
    assert!(not_a_number.contains("`NaN`"), "{not_a_number}");
    refused(&world, call(r#"{"a":Infinity}"#), "invalid_request").await;
    refused(&world, call(r#"{"a":1e999}"#), "invalid_request").await;
    let lone = refused(&world, call(r#"{"a":"\ud800"}"#), "invalid_request").await;
    assert!(lone.contains("surrogate"), "{lone}");
    refused(&world, b"{\"id\":1,\"call\":\"\xff\"}", "invalid_request").await;
    let field = refused(&world, r#"{"id":1,"call":"echo","argumens":{}}"#, "invalid_request").await;
    assert!(field.contains("unknown field `argumens`"), "{field}");
    refused(&world, call("{}") + " trailing", "invalid_request").await;
    refused(&world, "", "invalid_request").await;
    refused(&world, "GET / HTTP/1.1\r", "invalid_request").await;
    let events = world.events(10).await;
    assert!(events.iter().all(|event| event.outcome == "invalid_request"), "{events:?}");
    assert!(events.iter().all(|event| event.tool == "(unread)"), "{events:?}");
    // None of it harms the broker.
    assert_eq!(world.call("echo", json!({"say": "ok"})).await, result("ok"));
}

#[tokio::test]
async fn half_line_gets_an_error_if_the_program_still_reads() {
    let world = World::new(echo(), "");
    let large = "x".repeat(100_000);
    for half in [r#"{"id":1,"call":"echo","arguments":{}}"#, &large] {
        let mut program = world.connect();
        program.send(half).await;
        program.end_input().await;
        let answer = program.answer().await;
        assert_eq!(code(&answer), "invalid_request");
        assert!(message(&answer).contains("middle of a line"), "{answer}");
        assert_eq!(program.rest().await, "");
    }
    let mut silent = world.connect();
    silent.end_input().await;
    assert_eq!(silent.rest().await, "");
    assert_eq!(world.outcomes(2).await, ["invalid_request"; 2]);
}

#[tokio::test]
async fn ten_megabytes_are_refused_and_the_connection_stays_open() {
    let world = World::new(echo(), "");
    let mut program = world.connect();
    let large = "x".repeat(10 << 20);
    program
        .send(format!("{{\"id\":41,\"call\":\"echo\",\"arguments\":{{\"say\":\"{large}\"}}}}\n"))
        .await;
    let answer = program.answer().await;
    assert_eq!((code(&answer), &answer["id"]), ("too_large".into(), &json!(41)));
    assert!(message(&answer).contains("more than 1048576 bytes"), "{answer}");
    assert_eq!(program.call("echo", json!({"say": 1})).await, result(1));
    let observed = world.broker.observed();
    assert!(observed.limits_hit.contains(&Limit::ToolBytes));
    assert_eq!(observed.denials[0].control, "max_tool_bytes");
}

#[tokio::test]
async fn ten_thousand_levels_are_refused_and_the_connection_stays_open() {
    let world = World::new(echo(), "");
    let mut program = world.connect();
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    program
        .send(format!("{{\"id\":42,\"call\":\"echo\",\"arguments\":{{\"say\":{deep}}}}}\n"))
        .await;
    let answer = program.answer().await;
    assert_eq!((code(&answer), &answer["id"]), ("too_deep".into(), &json!(42)));
    let objects = "{\"a\":".repeat(10_000) + "1" + &"}".repeat(10_000);
    program.send(format!("{{\"id\":43,\"call\":\"echo\",\"arguments\":{objects}}}\n")).await;
    assert_eq!(code(&program.answer().await), "too_deep");
    assert_eq!(program.call("echo", json!({"say": 1})).await, result(1));
}

#[tokio::test]
async fn endless_line_is_given_up_without_being_buffered() {
    let world = World::new(echo(), "");
    let mut program = world.connect();
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..70 {
        program.try_send(&chunk).await;
    }
    assert_eq!(program.rest().await, "");
    assert_eq!(world.call("echo", json!({"say": "ok"})).await, result("ok"));
}

#[tokio::test]
async fn lookalike_names_are_denied_and_recorded_escaped() {
    let world = World::new(echo(), "");
    let mut program = world.connect();
    for name in [
        "echo\u{0}",
        "Echo",
        " echo",
        "echo\u{200b}",
        "\u{1b}[2J",
        "../echo",
        "",
        &"x".repeat(1000),
    ] {
        let answer = program.call(name, json!({})).await;
        assert_eq!(code(&answer), "denied", "{name:?}");
        assert!(message(&answer).chars().all(stockade_policy::is_harmless), "{answer}");
    }
    let events = world.events(8).await;
    for event in &events {
        assert!(event.tool.chars().all(stockade_policy::is_harmless), "{event:?}");
        assert!(event.tool.len() <= 128, "{event:?}");
    }
}

#[tokio::test]
async fn running_calls_are_answered_after_a_malformed_request() {
    let world = World::new(echo(), "");
    let mut program = world.connect();
    program.send("{\"id\":1,\"call\":\"echo\",\"arguments\":{\"say\":1}}\nrubbish\n{\"id\":2,\"list\":true}\n").await;
    let rest = program.rest().await;
    let mut lines: Vec<&str> = rest.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.len(), 2, "{rest}");
    assert_eq!(lines[0], r#"{"id":1,"result":1}"#);
    assert!(lines[1].starts_with(r#"{"id":null,"error":{"code":"invalid_request""#), "{rest}");
}

#[tokio::test]
async fn program_that_reads_no_answers_does_not_block_others() {
    let limits = "defaults: {max_tool_calls: 1000000}\nlimits: {max_concurrent_tool_calls: 100}";
    let world = World::new(echo(), limits);
    let mut deaf = world.connect();
    let say = "x".repeat(100_000);
    // Far more than the socket and the broker buffer; the broker stops reading.
    let flood = async {
        for _ in 0..200 {
            deaf.ask("echo", json!({"say": say})).await;
        }
    };
    let other = async {
        let mut program = world.connect();
        for n in 0..100 {
            assert_eq!(program.call("echo", json!({"say": n})).await, result(n));
        }
    };
    tokio::select! {
        () = flood => panic!("the broker took everything although no answer was read"),
        () = other => {}
    }
}
