use std::io::Cursor;

use proptest::prelude::*;

use super::*;
use crate::message::{GuestVersion, Hello, HelloReply, Nonce};

fn frame(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap();
    [length.to_le_bytes().as_slice(), body].concat()
}

fn read(bytes: &[u8]) -> Result<Message, FrameError> {
    read_message(&mut Cursor::new(bytes))
}

fn malformed_reason(body: &str) -> String {
    match read(&frame(body.as_bytes())) {
        Err(FrameError::Malformed { source }) => source.to_string(),
        other => panic!("expected a malformed frame, got {other:?}"),
    }
}

fn hello() -> String {
    r#"{"hello":{"version":1,"nonce":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]}}"#.to_owned()
}

#[test]
fn well_formed_hello_is_read() {
    let nonce = Nonce([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    let message = read(&frame(hello().as_bytes())).unwrap();
    assert_eq!(message, Message::Hello(Hello { version: 1, nonce }));
}

#[test]
fn giant_length_is_refused_before_any_body_is_read() {
    let mut stream = Cursor::new([0xff; 64]);
    let refused = read_message(&mut stream);
    assert!(matches!(refused, Err(FrameError::TooLong { bytes: 0xffff_ffff })), "{refused:?}");
    assert_eq!(stream.position(), 4);
}

#[test]
fn length_just_over_the_limit_is_refused_and_the_limit_itself_is_not() {
    let over = read(&(MAX_FRAME_BYTES as u32 + 1).to_le_bytes());
    assert!(matches!(over, Err(FrameError::TooLong { .. })), "{over:?}");
    let padded = hello() + &" ".repeat(MAX_FRAME_BYTES - hello().len());
    assert!(read(&frame(padded.as_bytes())).is_ok());
}

#[test]
fn empty_stream_is_closed_rather_than_truncated() {
    assert!(matches!(read(&[]), Err(FrameError::Closed)));
}

#[test]
fn stream_that_ends_early_says_how_much_is_missing() {
    let whole = frame(hello().as_bytes());
    for kept in 1..whole.len() {
        let expected = if kept < 4 { 4 - kept } else { whole.len() - kept };
        match read(&whole[..kept]) {
            Err(FrameError::Truncated { missing }) => assert_eq!(missing, expected),
            other => panic!("{kept} bytes gave {other:?}"),
        }
    }
}

#[test]
fn unknown_message_is_refused() {
    assert!(malformed_reason(r#"{"goodbye":{}}"#).contains("unknown variant `goodbye`"));
}

#[test]
fn unknown_field_is_refused() {
    let body = hello().replace("\"version\":1", "\"version\":1,\"root\":true");
    assert!(malformed_reason(&body).contains("unknown field `root`"));
}

#[test]
fn missing_and_duplicate_fields_are_refused() {
    assert!(malformed_reason(r#"{"hello":{"version":1}}"#).contains("missing field `nonce`"));
    let twice = hello().replace("\"version\":1", "\"version\":1,\"version\":2");
    assert!(malformed_reason(&twice).contains("duplicate field `version`"));
}

#[test]
fn second_message_in_one_frame_is_refused() {
    let two = r#"{"hello":{"version":1,"nonce":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]},"hello":{}}"#;
    malformed_reason(two);
}

#[test]
fn bytes_after_the_message_are_refused() {
    assert!(malformed_reason(&format!("{}x", hello())).contains("trailing characters"));
    assert!(malformed_reason(&hello().repeat(2)).contains("trailing characters"));
}

#[test]
fn nonce_of_another_length_is_refused() {
    malformed_reason(&hello().replace(",15]", "]"));
    malformed_reason(&hello().replace(",15]", ",15,16]"));
}

#[test]
fn deep_nesting_is_refused_without_exhausting_the_stack() {
    malformed_reason(&"[".repeat(MAX_FRAME_BYTES));
}

#[test]
fn stream_that_refuses_bytes_is_a_write_error() {
    struct Refusing;
    impl Write for Refusing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let message = Message::Hello(Hello { version: 1, nonce: Nonce([0; 16]) });
    let failed = write_message(&mut Refusing, &message);
    assert!(matches!(failed, Err(FrameError::Write { .. })), "{failed:?}");
}

fn any_message() -> impl Strategy<Value = Message> {
    let hello = (any::<u32>(), any::<[u8; 16]>())
        .prop_map(|(version, nonce)| Message::Hello(Hello { version, nonce: Nonce(nonce) }));
    let reply = (any::<u32>(), any::<[u8; 16]>(), "[0-9A-Za-z.+-]{1,64}", any::<u32>()).prop_map(
        |(version, nonce, guest_version, pid)| {
            let guest_version = GuestVersion::try_from(guest_version).unwrap();
            Message::HelloReply(HelloReply { version, nonce: Nonce(nonce), guest_version, pid })
        },
    );
    prop_oneof![hello, reply]
}

proptest! {
    #[test]
    fn what_was_written_is_read_back_and_nothing_is_left(messages in prop::collection::vec(any_message(), 0..4)) {
        let mut bytes = Vec::new();
        for message in &messages {
            write_message(&mut bytes, message).unwrap();
        }
        let mut stream = Cursor::new(bytes);
        for message in &messages {
            prop_assert_eq!(&read_message(&mut stream).unwrap(), message);
        }
        prop_assert!(matches!(read_message(&mut stream), Err(FrameError::Closed)));
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_never_read_past_the_frame(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        let mut stream = Cursor::new(&bytes);
        let _ = read_message(&mut stream);
        let announced = bytes.first_chunk().map_or(bytes.len(), |head| 4 + u32::from_le_bytes(*head) as usize);
        prop_assert!(stream.position() as usize <= announced.max(4));
    }
}
