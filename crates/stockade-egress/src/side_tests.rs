use std::path::Path;

use stockade_policy::Policy;
use stockade_record::{Egress, Sink, ToolCall, Unrecorded};
use tokio::io::repeat;

use super::*;
use crate::budget::Budget;
use crate::rules::Rules;
use crate::settings::Settings;
use crate::shared::Shared;

#[derive(Debug)]
struct Nobody;

impl Sink for Nobody {
    fn egress(&self, _: Egress) -> Result<(), Unrecorded> {
        Ok(())
    }

    fn tool_call(&self, _: ToolCall) -> Result<(), Unrecorded> {
        Ok(())
    }
}

pub(crate) fn shared(limits: &str) -> Arc<Shared> {
    let text = format!("limits: {{{limits}}}");
    let policy = Arc::new(Policy::parse_str("p", &text, Path::new("/")).unwrap());
    let (budget, settings) = (Budget::new(&policy), Settings::system().unwrap());
    Arc::new(Shared::new(Rules::Policy(policy), budget, Arc::new(Nobody), settings, None))
}

/// The input from a server that sends so many bytes as fast as they are read.
fn server(shared: &Arc<Shared>, bytes: usize) -> Incoming {
    let reader = repeat(7).take(bytes as u64);
    Incoming::new(Reader::Any(Box::new(reader)), Some(Meter::new(Arc::clone(shared))))
}

/// Reads once and forwards it.
async fn pass(incoming: &mut Incoming) -> usize {
    let read = incoming.fill_to_pass().await.unwrap();
    assert!(incoming.held().iter().all(|byte| *byte == 7));
    incoming.used(read);
    read
}

const PLENTY: &str = "max_egress_bytes: 1000000000";

#[tokio::test]
async fn buffer_grows_for_a_fast_server_and_shrinks_for_a_slow_one() {
    let mut incoming = server(&shared(PLENTY), MAX_HELD_BYTES + WIDE_BYTES + 10);
    assert_eq!(pass(&mut incoming).await, MAX_HELD_BYTES);
    assert_eq!(pass(&mut incoming).await, WIDE_BYTES);
    assert_eq!(pass(&mut incoming).await, 10);
    assert!(incoming.held.capacity() >= WIDE_BYTES);
    assert_eq!(pass(&mut incoming).await, 0);
    assert!(incoming.held.capacity() < WIDE_BYTES);
}

#[tokio::test]
async fn large_buffers_are_limited_in_number() {
    let shared = shared(PLENTY);
    let mut wide = Vec::new();
    for _ in 0..8 {
        let mut incoming = server(&shared, usize::MAX);
        pass(&mut incoming).await;
        assert_eq!(pass(&mut incoming).await, WIDE_BYTES);
        wide.push(incoming);
    }
    let mut late = server(&shared, usize::MAX);
    for _ in 0..3 {
        assert_eq!(pass(&mut late).await, MAX_HELD_BYTES);
    }
    wide.pop();
    assert_eq!(pass(&mut late).await, WIDE_BYTES);
}

#[tokio::test]
async fn reads_stay_small_near_a_limit() {
    for limits in ["max_egress_bytes_per_second: 1000000000", "max_egress_bytes: 10000000"] {
        let mut incoming = server(&shared(limits), usize::MAX);
        for _ in 0..3 {
            assert_eq!(pass(&mut incoming).await, MAX_HELD_BYTES);
        }
    }
}
