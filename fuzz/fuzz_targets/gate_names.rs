//! Any bytes as a question to the name server inside: exactly one answer, which fits a datagram.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| stockade_egress::fuzzing::dns(bytes));
