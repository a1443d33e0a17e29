//! Listings that a program requests and does not read.
//!
//! The paused clock advances only when all tasks are idle, so an answer that is not there by then
//! never comes.

use std::time::Duration;

use serde_json::json;
use stockade_tools::{Tool, Tools};
use tokio::time::timeout;

use crate::world::{Program, World, result};

/// With calls of this size, only one large buffer is kept at a time.
const ONE_AT_A_TIME: &str = "limits: {max_tool_bytes: 16777216}";

const LIST: &str = "{\"id\":1,\"list\":true}\n";

/// Shorter than the time after which a program that reads nothing is treated as gone.
const MOMENT: Duration = Duration::from_secs(10);

/// A tool whose listing is larger than a socket's buffer.
fn wordy() -> Tools {
    let mut tools = Tools::new();
    let schema = json!({"type": "object"});
    let described = "x".repeat(4 << 20);
    let echo = Tool::from_schema("echo", &described, schema, None, |arguments| {
        Box::pin(async move { Ok(arguments) })
    });
    tools.add(echo.unwrap()).unwrap();
    tools
}

async fn is_answered(program: &mut Program) -> bool {
    timeout(MOMENT, program.answer()).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn few_unread_listings_are_kept_at_once() {
    let world = World::new(wordy(), ONE_AT_A_TIME);
    let (mut deaf, mut other, mut caller) = (world.connect(), world.connect(), world.connect());
    deaf.send(LIST.repeat(100)).await;
    // The first one is being written once its first bytes can be read.
    deaf.peek().await;
    other.send(LIST).await;
    assert!(
        !is_answered(&mut other).await,
        "a second listing was kept in addition to an unread one"
    );
    // Other requests proceed in the meantime.
    assert_eq!(caller.call("echo", json!({"a": 1})).await, result(json!({"a": 1})));
    drop(deaf);
    assert!(is_answered(&mut other).await, "the permit of the first was not released");
}

#[tokio::test(start_paused = true)]
async fn long_request_for_a_listing_does_not_wait_for_its_own_permit() {
    let world = World::new(wordy(), ONE_AT_A_TIME);
    let mut program = world.connect();
    program.send(format!("{}{LIST}", " ".repeat(100_000))).await;
    assert!(is_answered(&mut program).await, "it waits for a permit that it holds itself");
}

#[tokio::test(start_paused = true)]
async fn closed_connection_does_not_wait_for_a_listing_permit() {
    let world = World::new(wordy(), ONE_AT_A_TIME);
    let mut deaf = world.connect();
    deaf.send(LIST).await;
    deaf.peek().await;
    let mut gone = world.connect();
    gone.send(LIST).await;
    gone.end_input().await;
    let ended = timeout(MOMENT, gone.rest()).await;
    assert_eq!(ended.expect("its connection is kept"), "");
}
