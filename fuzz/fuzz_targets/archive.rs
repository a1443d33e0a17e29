//! Any bytes as an archive: entries are read until the first refusal, names and targets are bounded,
//! and no entry has more content than it states.
#![no_main]

use std::io::Read;

use libfuzzer_sys::fuzz_target;
use stockade_archive::{Entries, EntryKind};

fuzz_target!(|bytes: &[u8]| {
    let mut entries = Entries::new(bytes);
    while let Ok(Some(entry)) = entries.next_entry() {
        assert!(entry.name.len() <= 4095 && !entry.name.contains(&0));
        let mut content = Vec::new();
        let read = entries.read_to_end(&mut content);
        match entry.kind {
            EntryKind::File { bytes, .. } => {
                assert!(read.is_err() || content.len() as u64 == bytes)
            }
            EntryKind::Link { target } | EntryKind::HardLink { target } => {
                assert!(content.is_empty() && target.len() <= 4095 && !target.contains(&0));
            }
            EntryKind::Directory | EntryKind::Special => assert!(content.is_empty()),
        }
    }
});
