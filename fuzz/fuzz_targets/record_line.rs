//! Any bytes as the content of a record's line, with the hash that fits: what is read as an event
//! is spelled as it is written, and nothing else is read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stockade_record::{Digest, decode, encode};

fuzz_target!(|content: &[u8]| {
    let hash = Digest::of(content);
    let line = [content, format!(",\"hash\":\"{hash}\"}}\n").as_bytes()].concat();
    if let Ok((event, read)) = decode(&line) {
        assert_eq!((encode(&event), read), ((line, hash), hash));
    }
    // As it came, the hash has to be in it.
    let _ = decode(content);
});
