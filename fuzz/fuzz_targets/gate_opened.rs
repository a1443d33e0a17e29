//! Any bytes as a request on an opened connection, and as an answer with a secret in it: what is
//! sent has one reading, and a value is only where it belongs.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    stockade_egress::fuzzing::opened(bytes);
    stockade_egress::fuzzing::redacted(bytes);
});
