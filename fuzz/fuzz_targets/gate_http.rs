//! Any bytes as heads and bodies of HTTP: nothing panics, and no more is used than there is.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| stockade_egress::fuzzing::http(bytes));
