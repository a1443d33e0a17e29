use proptest::prelude::*;

use super::*;

/// What is forwarded of a body that arrives in pieces, and how much of it was consumed.
fn pass(pieces: &[&[u8]]) -> Result<(Vec<u8>, usize, bool), ChunkError> {
    let mut chunks = Chunked::default();
    let (mut passed, mut used, mut done) = (Vec::new(), 0, false);
    for piece in pieces {
        let passing = chunks.advance(piece)?;
        passed.extend_from_slice(&piece[..passing.pass]);
        used += passing.pass + passing.drop;
        done = passing.is_done;
    }
    Ok((passed, used, done))
}

#[test]
fn body_ends_at_its_last_chunk() {
    let body = b"5\r\nhello\r\n0a\r\n0123456789\r\n0\r\n\r\nGET / HTTP/1.1";
    let (passed, used, done) = pass(&[body]).unwrap();
    assert_eq!(passed, b"5\r\nhello\r\n0a\r\n0123456789\r\n0\r\n");
    assert_eq!((used, done), (body.len() - 14, true));
}

#[test]
fn trailers_are_dropped() {
    let (passed, _, done) = pass(&[b"1\r\nx\r\n0\r\nX-Smuggled: 1\r\nA: b\r\n\r\n"]).unwrap();
    assert_eq!((passed.as_slice(), done), (&b"1\r\nx\r\n0\r\n"[..], true));
}

#[test]
fn ambiguous_chunk_sizes_are_refused() {
    for (body, error) in [
        (&b"5;a=b\r\nhello\r\n"[..], ChunkError::Size),
        (b"5 \r\nhello\r\n", ChunkError::Size),
        (b" 5\r\nhello\r\n", ChunkError::Size),
        (b"+5\r\nhello\r\n", ChunkError::Size),
        (b"0x5\r\nhello\r\n", ChunkError::Size),
        (b"5\nhello\r\n", ChunkError::Size),
        (b"\r\n", ChunkError::Size),
        (b"fffffffffffffffff\r\n", ChunkError::Size),
        (b"5\r\nhello!\r\n", ChunkError::End),
        (b"5\r\nhello\n", ChunkError::End),
        (b"0\r\nA: b\n\r\n", ChunkError::Trailer),
        (b"0\r\nA: \0\r\n\r\n", ChunkError::Trailer),
        (b"0\r\n\r\r\n", ChunkError::Trailer),
    ] {
        assert_eq!(pass(&[body]), Err(error), "{body:?}");
    }
}

#[test]
fn endless_trailers_are_refused_at_the_limit() {
    let endless = [b"0\r\n".as_slice(), &b"A: b\r\n".repeat(2000)].concat();
    assert_eq!(pass(&[&endless]), Err(ChunkError::Trailer));
}

proptest! {
    #[test]
    fn segmentation_does_not_change_what_passes(
        contents in proptest::collection::vec("[a-f0-9\r\n]{1,30}", 0..5),
        trailer in prop_oneof![Just(""), Just("A: b\r\n")],
        step in 1usize..9,
    ) {
        let mut body = String::new();
        for content in &contents {
            body.push_str(&format!("{:x}\r\n{content}\r\n", content.len()));
        }
        body.push_str("0\r\n");
        let expected = body.clone().into_bytes();
        body.push_str(&format!("{trailer}\r\n"));
        let pieces: Vec<&[u8]> = body.as_bytes().chunks(step).collect();
        prop_assert_eq!(pass(&pieces), Ok((expected, body.len(), true)));
    }
}
