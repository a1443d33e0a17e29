//! Any bytes as a request to the desk: read as every reader of JSON does, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| stockade_tools::fuzzing::request(bytes));
