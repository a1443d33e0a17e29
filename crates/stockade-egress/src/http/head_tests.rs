use proptest::prelude::*;

use super::*;

const HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nrest";

#[test]
fn head_ends_after_its_empty_line() {
    assert_eq!(head_end(HEAD, 0), Ok(Some(HEAD.len() - 4)));
    assert_eq!(head_end(&HEAD[..20], 0), Ok(None));
    assert_eq!(head_end(b"", 0), Ok(None));
}

#[test]
fn other_line_endings_and_control_characters_are_refused_at_once() {
    for (bytes, error) in [
        (&b"GET / HTTP/1.1\n"[..], HeadError::BareLineEnd),
        (b"GET / HTTP/1.1\r\nA: b\n", HeadError::BareLineEnd),
        (b"GET / HTTP/1.1\r\nA: b\rc", HeadError::BareLineEnd),
        (b"GET / HTTP/1.1\r\r\n", HeadError::BareLineEnd),
        (b"\nGET", HeadError::BareLineEnd),
        (b"GET / HTTP/1.1\r\nA: \0", HeadError::ControlByte),
        (b"GET / HTTP/1.1\r\nA: \x7f", HeadError::ControlByte),
        (b"\r\nGET", HeadError::Version),
        (b"GET /\r\n", HeadError::Version),
        (b"PRI * HTTP/2.0\r\n", HeadError::Version),
        (b"SSH-2.0-OpenSSH\r\n", HeadError::Version),
    ] {
        assert_eq!(head_end(bytes, 0), Err(error), "{bytes:?}");
    }
}

#[test]
fn endless_head_is_refused_at_the_limit() {
    let endless = [b"GET / HTTP/1.1\r\nA: ".as_slice(), &[b'x'; MAX_HEAD_BYTES]].concat();
    assert_eq!(head_end(&endless, 0), Err(HeadError::TooLong));
    assert_eq!(head_end(&endless[..MAX_HEAD_BYTES - 1], 0), Ok(None));
}

proptest! {
    #[test]
    fn segmentation_does_not_change_the_end_of_a_head(
        bytes in "(GET / HTTP/1\\.1)?([a-z: ]|\r\n|\n|\r){0,40}",
        step in 1usize..7,
    ) {
        let bytes = bytes.as_bytes();
        let whole = head_end(bytes, 0);
        let mut looked_at = 0;
        let mut found = Ok(None);
        for end in (0..bytes.len()).step_by(step).chain([bytes.len()]) {
            found = head_end(&bytes[..end], looked_at);
            looked_at = end;
            if found != Ok(None) {
                break;
            }
        }
        prop_assert_eq!(found, whole);
    }
}
