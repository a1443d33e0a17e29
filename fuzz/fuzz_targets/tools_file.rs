//! Any bytes as a tools file: checked or refused with a place in it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| stockade_tools::fuzzing::tools_file(bytes));
