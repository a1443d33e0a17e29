//! Any bytes as a SOCKS greeting or request: nothing panics, and no more is used than there is.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| stockade_egress::fuzzing::socks(bytes));
