//! Any bytes as a request to the tool broker: parsed as serde_json does, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| stockade_tools::fuzzing::request(bytes));
