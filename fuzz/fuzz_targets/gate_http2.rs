//! Any bytes after the preface of HTTP/2 on an opened connection: a request that is accepted has one
//! reading, and a value is only where it belongs.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    stockade_egress::fuzzing::opened_two(bytes);
});
