//! Any bytes as the tree of a checkpoint: names are single components, records follow each other as
//! a tree does, content stays in its file, and what was read is written as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stockade_archive::tree::{MAX_NAME_BYTES, Order, Record, read_extent};

fuzz_target!(|bytes: &[u8]| {
    let mut source = bytes;
    let (mut order, mut buffer) = (Order::default(), Vec::new());
    while let Ok(record) = Record::decode(&mut source) {
        if let Some(name) = record.name() {
            assert!(!name.is_empty() && name.len() <= MAX_NAME_BYTES);
            assert!(!matches!(name, b"." | b"..") && !name.contains(&b'/') && !name.contains(&0));
        }
        let mut again = Vec::new();
        record.encode(&mut again);
        assert_eq!(Record::decode(&mut again.as_slice()).ok().as_ref(), Some(&record));
        if order.check(&record, 1000).is_err() {
            return;
        }
        if let Record::File(head) = &record {
            let mut end = 0;
            while let Ok(Some(extent)) = read_extent(&mut source, head.size, end, &mut buffer) {
                assert!(extent.offset >= end && extent.bytes == buffer.len());
                end = extent.offset + extent.bytes as u64;
                assert!(end <= head.size);
            }
        }
    }
});
