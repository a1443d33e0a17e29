//! Listings of tools that are asked for and not read.
//!
//! The clock goes on only when nothing else is left to do, so that what has not come by then does
//! not come at all.

use std::time::Duration;

use serde_json::json;
use stockade_tools::{Tool, Tools};
use tokio::time::timeout;

use crate::world::{Program, World, result};

/// With calls as large as this, one large thing is kept at a time.
const ONE_AT_A_TIME: &str = "limits: {max_tool_bytes: 16777216}";

const LIST: &str = "{\"id\":1,\"list\":true}\n";

/// Shorter than the time after which a program that reads nothing is taken to be gone.
const MOMENT: Duration = Duration::from_secs(10);

/// A tool whose listing is more than a socket takes without being read.
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
async fn listing_that_nobody_reads_is_kept_for_few_at_once() {
    let world = World::new(wordy(), ONE_AT_A_TIME);
    let (mut deaf, mut other, mut caller) = (world.connect(), world.connect(), world.connect());
    deaf.send(LIST.repeat(100)).await;
    // The first of them is under way once its beginning is there to be read.
    deaf.peek().await;
    other.send(LIST).await;
    assert!(
        !is_answered(&mut other).await,
        "a second listing was kept beside one that is not read"
    );
    // Others go on meanwhile.
    assert_eq!(caller.call("echo", json!({"a": 1})).await, result(json!({"a": 1})));
    drop(deaf);
    assert!(is_answered(&mut other).await, "the place of the first was not given back");
}

#[tokio::test(start_paused = true)]
async fn long_request_for_a_listing_does_not_wait_for_its_own_place() {
    let world = World::new(wordy(), ONE_AT_A_TIME);
    let mut program = world.connect();
    program.send(format!("{}{LIST}", " ".repeat(100_000))).await;
    assert!(is_answered(&mut program).await, "it waits for a place that it holds itself");
}

#[tokio::test(start_paused = true)]
async fn place_of_a_listing_is_not_waited_for_by_a_program_that_is_gone() {
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
