//! Any bytes on the stream: frames are read until the first refusal, and what was read survives
//! being written again.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use stockade_wire::{read_message, write_message};

fuzz_target!(|bytes: &[u8]| {
    let mut stream = Cursor::new(bytes);
    while let Ok(message) = read_message(&mut stream) {
        let mut written = Vec::new();
        write_message(&mut written, &message).expect("a message that was read can be written");
        let again = read_message(&mut Cursor::new(written)).expect("and read again");
        assert_eq!(again, message);
    }
});
