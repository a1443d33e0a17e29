//! Any bytes as the first ones of a TLS client: a name or a refusal, the same in one piece or two.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| stockade_egress::fuzzing::client_hello(bytes));
