use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::io::Cursor;
use proptest::prelude::*;

use super::*;
use crate::{
    CodeFile, Ended, Execute, ExecutionStarted, Filter, GuestMessage, GuestVersion, Hello,
    HelloReply, HostMessage, Nonce, NotStarted, Resize, Resized, Role, Status, StreamHeader, Text,
    WindowSize,
};

fn frame(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap();
    [length.to_le_bytes().as_slice(), body].concat()
}

/// Reads from a stream that is always ready.
fn next<T: DeserializeOwned>(stream: &mut (impl AsyncRead + Unpin)) -> Result<T, FrameError> {
    read_message(stream).now_or_never().expect("bytes in memory are always ready")
}

fn read(bytes: &[u8]) -> Result<HostMessage, FrameError> {
    next(&mut Cursor::new(bytes))
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
    assert_eq!(message, HostMessage::Hello(Hello { version: 1, nonce }));
}

#[test]
fn giant_length_is_refused_before_any_body_is_read() {
    let mut stream = Cursor::new([0xff; 64]);
    let refused = next::<HostMessage>(&mut stream);
    assert!(matches!(refused, Err(FrameError::TooLong { bytes: 0xffff_ffff, .. })), "{refused:?}");
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
fn truncated_stream_error_counts_the_missing_bytes() {
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
    impl AsyncWrite for Refusing {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }
        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }
    let failed = write_message(&mut Refusing, &HostMessage::Pause).now_or_never().unwrap();
    assert!(matches!(failed, Err(FrameError::Write { .. })), "{failed:?}");
}

#[test]
fn unknown_fields_of_an_execution_are_refused_and_its_code_may_be_null() {
    let body = r#"{"execute":{"execution":1,"program":"sh","arguments":["sh"],"environment":[["A","b"]],"working_directory":"/","code":null,"next_code":null,"terminal":null,"filters":[]}}"#;
    assert!(read(&frame(body.as_bytes())).is_ok());
    let body = body.replace("\"code\":null", "\"code\":{\"path\":\"/x\",\"bytes\":1,\"mode\":511}");
    assert!(malformed_reason(&body).contains("unknown field `mode`"));
}

#[test]
fn guest_messages_are_not_accepted_as_host_messages() {
    assert!(malformed_reason(r#"{"started":{"execution":1}}"#).contains("unknown variant"));
}

fn any_text() -> impl Strategy<Value = Text> {
    "[^\\x00]{0,12}".prop_map(|text| Text::try_from(text).unwrap())
}

fn any_host_message() -> impl Strategy<Value = HostMessage> {
    let hello = (any::<u32>(), any::<[u8; 16]>())
        .prop_map(|(version, nonce)| HostMessage::Hello(Hello { version, nonce: Nonce(nonce) }));
    let code = (any_text(), any::<u64>()).prop_map(|(path, bytes)| CodeFile { path, bytes });
    let instructions = prop::collection::vec(any::<(u16, u8, u8, u32)>(), 0..4);
    let filter = instructions.prop_map(|instructions| Filter { instructions });
    let execute = (
        any::<u64>(),
        any_text(),
        prop::collection::vec(any_text(), 0..4),
        prop::collection::vec((any_text(), any_text()), 0..4),
        any_text(),
        prop::option::of(code),
        prop::option::of(any_text()),
        prop::option::of(any_size()),
        prop::collection::vec(filter, 0..3),
        (prop::option::of(any::<u64>()), prop::option::of(any::<u64>())),
    );
    let execute = execute.prop_map(|fields| {
        let (execution, program, arguments, environment, working_directory, ..) = fields;
        let (.., code, next_code, terminal, filters, (leaf, next_leaf)) = fields;
        HostMessage::Execute(Box::new(Execute {
            execution,
            program,
            arguments,
            environment,
            working_directory,
            code,
            next_code,
            terminal,
            filters,
            leaf,
            next_leaf,
        }))
    });
    let resize = (any::<u64>(), any_size())
        .prop_map(|(execution, size)| HostMessage::Resize(Resize { execution, size }));
    prop_oneof![hello, execute, resize, Just(HostMessage::Pause), Just(HostMessage::Resume)]
}

fn any_size() -> impl Strategy<Value = WindowSize> {
    any::<(u16, u16)>().prop_map(|(columns, rows)| WindowSize { columns, rows })
}

fn any_guest_message() -> impl Strategy<Value = GuestMessage> {
    let reply = (any::<u32>(), any::<[u8; 16]>(), "[0-9A-Za-z.+-]{1,64}", any::<u32>()).prop_map(
        |(version, nonce, guest_version, pid)| {
            let guest_version = GuestVersion::try_from(guest_version).unwrap();
            let nonce = Nonce(nonce);
            GuestMessage::HelloReply(HelloReply { version, nonce, guest_version, pid })
        },
    );
    let not_started =
        (any::<u64>(), any::<i32>(), any_text()).prop_map(|(execution, errno, program)| {
            GuestMessage::NotStarted(NotStarted { execution, errno, program })
        });
    let started =
        any::<u64>().prop_map(|execution| GuestMessage::Started(ExecutionStarted { execution }));
    let status =
        prop_oneof![any::<i32>().prop_map(Status::Exited), any::<i32>().prop_map(Status::Signaled)];
    let ended = (any::<u64>(), status)
        .prop_map(|(execution, status)| GuestMessage::Ended(Ended { execution, status }));
    let resized = any::<u64>().prop_map(|execution| GuestMessage::Resized(Resized { execution }));
    prop_oneof![reply, not_started, started, ended, resized]
}

fn any_header() -> impl Strategy<Value = StreamHeader> {
    let role =
        prop_oneof![Just(Role::Input), Just(Role::Output), Just(Role::Error), Just(Role::Code)];
    (any::<u64>(), role).prop_map(|(execution, role)| StreamHeader { execution, role })
}

/// Writes messages one after the other and reads them back to the end of the stream.
fn there_and_back<T>(messages: &[T]) -> Vec<T>
where
    T: Serialize + DeserializeOwned,
{
    let mut bytes = Vec::new();
    for message in messages {
        write_message(&mut bytes, message).now_or_never().unwrap().unwrap();
    }
    let mut stream = Cursor::new(bytes);
    let mut read = Vec::new();
    loop {
        match next(&mut stream) {
            Ok(message) => read.push(message),
            Err(FrameError::Closed) => return read,
            Err(error) => panic!("{error:?}"),
        }
    }
}

proptest! {
    #[test]
    fn written_messages_are_read_back_completely(
        host in prop::collection::vec(any_host_message(), 0..4),
        guest in prop::collection::vec(any_guest_message(), 0..4),
        headers in prop::collection::vec(any_header(), 0..4),
    ) {
        prop_assert_eq!(there_and_back(&host), host);
        prop_assert_eq!(there_and_back(&guest), guest);
        prop_assert_eq!(there_and_back(&headers), headers);
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_never_read_past_the_frame(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        let mut stream = Cursor::new(&bytes);
        let _ = next::<GuestMessage>(&mut stream);
        let announced = bytes.first_chunk().map_or(bytes.len(), |head| 4 + u32::from_le_bytes(*head) as usize);
        prop_assert!(stream.position() as usize <= announced.max(4));
    }
}
