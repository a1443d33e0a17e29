use proptest::prelude::*;

use crate::fuzzing::opened_two;

/// A head of HTTP/2 without a body.
fn head(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    let length = u32::try_from(block.len()).unwrap().to_be_bytes();
    [&length[1..], &[1, 5], &stream.to_be_bytes(), &block].concat()
}

const BASE: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "a.example.org"),
    (":path", "/a?k=@@"),
];

#[test]
fn heads_with_one_reading_are_accepted_and_no_others() {
    let with = |stream, name, value| head(stream, &[&BASE[..], &[(name, value)]].concat());
    assert_eq!(opened_two(&head(1, &BASE)), 1);
    let two = [with(1, "authorization", "@@"), with(3, "cookie", "a=1")].concat();
    assert_eq!(opened_two(&two), 2);
    for (name, value) in [
        ("host", "b.example.org"),
        ("content-length", "+1"),
        ("transfer-encoding", "chunked"),
        (":path", "/b"),
    ] {
        assert_eq!(opened_two(&with(1, name, value)), 0, "{name}: {value}");
    }
}

proptest! {
    #[test]
    fn any_frames_are_read_without_a_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        name in "[a-zA-Z:-]{1,12}",
        value in "[ -~]{0,60}",
        path in "[ -~]{0,60}",
    ) {
        opened_two(&bytes);
        let path = ["/", &path].concat();
        let base = [BASE[0], BASE[1], BASE[2], (":path", path.as_str())];
        opened_two(&head(1, &[&base[..], &[(name.as_str(), value.as_str())]].concat()));
    }
}
